// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM finds out when it has lost track of a vCPU: the VM ends with an error, or
 * the kernel says what happened. If it was not told of vCPUs it finds them, and
 * leaves all others asleep.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"

#define READ_ALL	3

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fatal("pin this thread");
}

/* Does the module make this mistake? */
static int make(const char *mistake, const char *value)
{
	char name[80];
	int file, ok;

	snprintf(name, sizeof(name), "/sys/module/trapless_faults/parameters/%s",
		 mistake);
	file = open(name, O_WRONLY);
	if (file < 0)
		fatal("open a parameter of trapless_faults");
	ok = write(file, value, strlen(value)) == (ssize_t)strlen(value);
	close(file);
	return ok;
}

static int kernel_said(const char *what)
{
	static char log[1 << 18];
	int length = klogctl(READ_ALL, log, sizeof(log) - 1);

	if (length < 0)
		fatal("read the kernel's log");
	log[length] = 0;
	return strstr(log, what) != NULL;
}

static void test_missing(void)
{
	struct vm vm;
	int ret;

	create_domain(&vm, 1);
	CHECK(make("missing", "1"), "vCPU 0 is missing in its table");
	ret = ioctl(vm.vcpus[0].fd, KVM_RUN, 0);
	CHECK(ret < 0 && errno == EIO, "it does not run");
	CHECK(kernel_said("vCPU 0 cannot be attached"), "the kernel says why");
	CHECK(make("missing", "0"), "it is back");
	ret = ioctl(vm.vcpus[0].fd, KVM_RUN, 0);
	CHECK(ret < 0 && errno == EIO, "the VM stays dead");
	destroy_vm(&vm);

	create_domain(&vm, 1);
	start(&vm.vcpus[0]);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&vm.vcpus[0].shared->count[1], 1), "the next one runs");
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
}

/* The vCPU waits on its hart if no other thread wanted that when it was entered */
static int attached_twice(struct vm *vm)
{
	int tries;

	for (tries = 0; tries < 100; tries++) {
		irq_line(vm, 2, 1);
		usleep(10000);
		if (make("twice", "1"))
			return 1;
	}
	return 0;
}

static void test_twice(void)
{
	struct vm vm;

	pin(0);
	create_domain(&vm, 2);
	/* The vCPU waits on its hart, so it stays attached */
	native_wfi(&vm, 1);
	vm.vcpus[0].cpu = 1;
	vm.vcpus[1].cpu = 0;
	start(&vm.vcpus[0]);
	reaches(&vm.vcpus[0].shared->rounds, 1);
	CHECK(attached_twice(&vm), "vCPU 0 is attached on two CPUs");
	CHECK(!kernel_said("the same vCPU"), "nobody has looked yet");
	start(&vm.vcpus[1]);
	/* An interrupt of the host may end its WFI */
	reaches(&vm.vcpus[1].shared->rounds, 1);
	CHECK(vm.vcpus[1].shared->rounds > 0, "another vCPU is attached");
	CHECK(kernel_said("Two harts had the same vCPU"), "the kernel says so");
	irq_line(&vm, 1, 1);
	CHECK(reaches(&vm.vcpus[0].shared->count[1], 1),
	      "vCPU 0 gets its interrupts");
	stop(&vm.vcpus[0]);
	stop(&vm.vcpus[1]);
	destroy_vm(&vm);
}

/* How often a thread has slept */
static unsigned long sleeps(int tid)
{
	unsigned long number = 0;
	char line[256];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/task/%d/status", tid);
	file = fopen(line, "r");
	if (!file)
		fatal(line);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &number) == 1)
			break;
	fclose(file);
	return number;
}

#define MANY	6

/* A queue is too small for those that one VM wakes up at a time */
static void test_overflow(void)
{
	struct vm many, other;
	unsigned long before;
	int i, woken = 0;

	/* Where the controller notifies of them is where the module writes */
	pin(1);
	create_domain(&many, MANY);
	create_domain(&other, 1);
	for (i = 0; i < MANY; i++) {
		many.vcpus[i].cpu = 1;
		start(&many.vcpus[i]);
		reaches(&many.vcpus[i].shared->rounds, 1);
	}
	other.vcpus[0].cpu = 1;
	start(&other.vcpus[0]);
	reaches(&other.vcpus[0].shared->rounds, 1);
	usleep(50000);
	before = sleeps(other.vcpus[0].tid);
	CHECK(make("overflow", "6"), "a queue of two overflows");
	for (i = 0; i < MANY; i++)
		woken += reaches(&many.vcpus[i].shared->soft, 1);
	CHECK(woken == MANY, "all that sleep are woken up");
	usleep(50000);
	CHECK(sleeps(other.vcpus[0].tid) == before, "a vCPU of another VM sleeps on");
	irq_line(&other, 1, 1);
	CHECK(reaches(&other.vcpus[0].shared->count[1], 1), "until it is interrupted");
	for (i = 0; i < MANY; i++)
		stop(&many.vcpus[i]);
	stop(&other.vcpus[0]);
	destroy_vm(&many);
	destroy_vm(&other);
}

/* An event in no memory: KVM says so, and its queue works on */
static void test_event(void)
{
	struct vm vm;

	pin(1);
	create_domain(&vm, 1);
	vm.vcpus[0].cpu = 1;
	CHECK(make("event", "0xffffffffff000"), "an event is posted that is in no memory");
	CHECK(!kernel_said("could not access doorbells"), "nobody has looked yet");
	start(&vm.vcpus[0]);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&vm.vcpus[0].shared->count[1], 1), "a vCPU runs there");
	CHECK(kernel_said("could not access doorbells"), "the kernel says what happened");
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
}

int main(void)
{
	int file = open("/tests/trapless_faults.ko", O_RDONLY | O_CLOEXEC);

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0 || file < 0 || syscall(SYS_finit_module, file, "", 0))
		fatal("open /dev/kvm and load the module");
	test_overflow();
	test_missing();
	test_twice();
	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_VEI) > 0)
		test_event();

	return failures != 0;
}
