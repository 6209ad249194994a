// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary user who may open /dev/kvm takes as much of the host as KVM gives:
 * doorbells, user contexts, interrupt domains.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../include/uapi/linux/kvm_uctx.h"
#include "tests.h"
#include "vm.h"

#define USER		1000
#define NOBODYS		0x10000000UL
#define PAGE		4096UL
#define BELLS		256
#define VMS		40

/* What a VM may have (riscv-vei.rst), and a user of the host's (riscv-uctx.rst) */
#define BELL_PAGES	128
#define CONTEXTS	16
/* Bytes for an ioeventfd and its doorbell beside that page */
#define EACH		600

/* Memory of the host's kernel that nobody gives back, in bytes */
static long kernel_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[256];
	long kb = 0, sum = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SUnreclaim: %ld", &kb) == 1 ||
		    sscanf(line, "PageTables: %ld", &kb) == 1 ||
		    sscanf(line, "SecPageTables: %ld", &kb) == 1)
			sum += kb * 1024;
	if (file)
		fclose(file);

	return sum;
}

/* The same with pages that are in no account of the kernel's */
static long free_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[256];
	long kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
			break;
	if (file)
		fclose(file);

	return kb * 1024;
}

/* Interrupts that Linux has numbers for */
static int interrupts(void)
{
	DIR *folder = opendir("/proc/irq");
	int count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);

	return count;
}

/* A VM with so many ioeventfds, @apart bytes from each other; how many it got */
static int ring(int fd, int eventfd, int count, unsigned long apart)
{
	int i;

	for (i = 0; i < count; i++) {
		struct kvm_ioeventfd bell = {
			.addr = NOBODYS + i * apart,
			.len = 4,
			.fd = eventfd,
		};

		if (ioctl(fd, KVM_IOEVENTFD, &bell))
			break;
	}

	return i;
}

/* VMs with as many ioeventfds as have doorbells; returns how many ioeventfds */
static long take_doorbells(int *vms, int number, unsigned long apart)
{
	int i, eventfd_of_all = eventfd(0, 0);
	long taken = 0;

	for (i = 0; i < number; i++) {
		vms[i] = ioctl(kvm, KVM_CREATE_VM, 0);
		if (vms[i] < 0)
			break;
		taken += ring(vms[i], eventfd_of_all, BELLS, apart);
	}
	close(eventfd_of_all);

	return taken;
}

/* What the user tells the host, in memory that both have */
struct found {
	long bells;
	long each;
	long pages;
	int interrupts;
	int contexts;
	int contexts_error;
	int domains;
	int domains_error;
};

static void give_back(int *fds, int number)
{
	int i;

	for (i = 0; i < number; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Looks without more free memory, 100 ms apart, after which no more is expected */
#define STILL		5

/*
 * Waits until what has been given back is free: some of it is after grace
 * periods only, some by workers that begin later.
 */
static void settle(void)
{
	long most = free_memory();
	int still = 0;

	while (still < STILL) {
		long now;

		usleep(100000);
		now = free_memory();
		still = now > most ? 0 : still + 1;
		if (now > most)
			most = now;
	}
}

static void hog_memory(volatile struct found *found)
{
	int i, vms[VMS];
	long before, empty;

	/* What VMs cost without ioeventfds */
	before = kernel_memory();
	for (i = 0; i < VMS; i++)
		vms[i] = ioctl(kvm, KVM_CREATE_VM, 0);
	empty = kernel_memory() - before;
	give_back(vms, VMS);
	settle();

	found->interrupts = interrupts();
	before = kernel_memory();
	found->bells = take_doorbells(vms, VMS, 4);
	found->each = (kernel_memory() - before - empty) / found->bells;
	found->interrupts = interrupts() - found->interrupts;
	give_back(vms, VMS);
	settle();

	before = free_memory();
	take_doorbells(vms, VMS, PAGE);
	found->pages = (before - free_memory()) / VMS / (long)PAGE;
	give_back(vms, VMS);
}

/* A VM may have several; they end with the process */
static void hog_contexts(volatile struct found *found)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_UCTX };
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);

	while (!ioctl(vm, KVM_CREATE_DEVICE, &cd))
		found->contexts++;
	found->contexts_error = errno;
}

static void hog_domains(volatile struct found *found)
{
	struct vm vm = {};

	/* Each until the process ends */
	for (;;) {
		vm.fd = ioctl(kvm, KVM_CREATE_VM, 0);
		if (vm.fd < 0 || ioctl(vm.fd, KVM_CREATE_VCPU, 0) < 0 ||
		    create_device(&vm))
			break;
		found->domains_error = -attr(&vm, KVM_SET_DEVICE_ATTR,
					     KVM_DEV_TRAPLESS_GRP_CTRL,
					     KVM_DEV_TRAPLESS_CTRL_INIT, NULL);
		if (found->domains_error)
			break;
		found->domains++;
	}
}

static int wait_for(pid_t child)
{
	int status;

	waitpid(child, &status, 0);

	return status;
}

static void run_as_user(void (*what)(volatile struct found *found),
			volatile struct found *found)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		if (setgid(USER) || setuid(USER))
			_exit(1);
		what(found);
		_exit(0);
	}
	CHECK(!wait_for(child), "an ordinary user tries");
}

static void write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		fatal(path);
	close(file);
}

#define GROUPS		"/run/hog"
#define GROUP		GROUPS "/user"
/* Of the memory group, and what it costs the host beside what is in its account */
#define LIMIT		"33554432"
#define LIMIT_AND_MORE	(48L << 20)

/*
 * What VMs have in the kernel is in the account of their user's memory group: doorbells
 * on pages of their own, in more VMs than the group has memory for.
 */
static void test_group(volatile struct found *found)
{
	static int vms[900];
	long before, least;
	pid_t child;

	mkdir(GROUPS, 0755);
	if (mount("none", GROUPS, "cgroup2", 0, NULL) ||
	    (write_to(GROUPS "/cgroup.subtree_control", "+memory"), mkdir(GROUP, 0755))) {
		printf("skip: the kernel has no memory groups\n");
		return;
	}
	write_to(GROUP "/memory.max", LIMIT);
	before = free_memory();
	least = before;
	fflush(stdout);
	child = fork();
	if (!child) {
		write_to(GROUP "/cgroup.procs", "0");
		if (setgid(USER) || setuid(USER))
			_exit(1);
		found->bells = take_doorbells(vms, 900, PAGE);
		pause();
	}
	/* Killed, or refused what it wants */
	for (int i = 0; i < 100 && !waitpid(child, NULL, WNOHANG); i++) {
		usleep(20000);
		if (free_memory() < least)
			least = free_memory();
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("     %ld kB of the host\n", (before - least) >> 10);
	CHECK(before - least < LIMIT_AND_MORE,
	      "doorbells are in the account of a memory group");
	rmdir(GROUP);
	umount(GROUPS);
}

void test_hog(void)
{
	volatile struct found *found;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) <= 0) {
		printf("skip: KVM offers no user contexts\n");
		return;
	}
	chmod("/dev/kvm", 0666);
	found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	run_as_user(hog_memory, found);
	printf("     %ld ioeventfds: %ld bytes each, %d interrupts; with pages of their own %ld for each VM\n",
	       found->bells, found->each, found->interrupts, found->pages);
	CHECK(found->bells == VMS * BELLS && !found->interrupts,
	      "ioeventfds take none of the host's interrupts");
	CHECK(found->each > 0 && found->each < EACH, "and little of its memory");
	CHECK(found->pages > 0 && found->pages < 2 * BELL_PAGES, "however far they are apart");

	run_as_user(hog_contexts, found);
	CHECK(found->contexts == CONTEXTS && found->contexts_error == EDQUOT,
	      "a user has %d user contexts", found->contexts);
	run_as_user(hog_domains, found);
	CHECK(found->domains <= 256 && found->domains_error == EDQUOT,
	      "and %d interrupt domains", found->domains);
	test_group(found);
	munmap((void *)found, 4096);
}
