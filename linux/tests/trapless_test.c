// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test of the KVM device of Xtrapless, without a VMM: a bare-metal guest of one
 * page counts what it is interrupted with. What needs neither that guest nor
 * several tests' helpers is in the kernel's own selftests, which the series adds
 * to (tools/testing/selftests/kvm/riscv/trapless*_test.c).
 *
 * trapless_test [NAME...] runs all tests or those named. Prints one line per
 * check and exits with 1 if one fails, 4 if the host has no Xtrapless (as KVM's
 * selftests do).
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests.h"
#include "vm.h"

#define VCPUS	2

static void test_guest(void)
{
	struct kvm_irqfd irqfd = { .gsi = 5 };
	struct kvm_irqfd resample = { .gsi = 6,
				      .flags = KVM_IRQFD_FLAG_RESAMPLE };
	volatile struct shared *a, *b;
	uint64_t one = 1, got;
	unsigned long before;
	struct vm vm;

	create_domain(&vm, VCPUS);
	a = vm.vcpus[0].shared;
	b = vm.vcpus[1].shared;
	/* Pending before the first KVM_RUN */
	irq_line(&vm, 1, 1);
	start(&vm.vcpus[0]);
	start(&vm.vcpus[1]);
	CHECK(reaches(&a->count[1], 1), "an edge that was pending before");
	CHECK(reaches(&b->rounds, 1), "both vCPUs run");
	CHECK(vcpu_word(&vm, 0, 0) == (uint64_t)-EBUSY,
	      "words of a running vCPU are refused");
	usleep(20000);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], 2), "an edge for a sleeping vCPU");

	irqfd.fd = eventfd(0, 0);
	CHECK(ioctl(vm.fd, KVM_IRQFD, &irqfd) == 0, "irqfd");
	if (write(irqfd.fd, &one, 8) != 8)
		fatal("write to an eventfd");
	CHECK(reaches(&a->count[5], 1), "an irqfd interrupts");

	/* Of priority 0, then of one that interrupts: a sleeping vCPU, a running one */
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 3, PRIO(0) | 1);
	irq_line(&vm, 3, 1);
	usleep(20000);
	CHECK(b->count[3] == 0, "priority 0 does not interrupt");
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 3, PRIO(1) | 1);
	CHECK(reaches(&b->count[3], 1), "a higher priority does");
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 3, PRIO(0) | 1);
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 4, PRIO(1) | 1);
	b->hold = 1;
	irq_line(&vm, 4, 1);
	reaches(&b->count[4], 1);
	irq_line(&vm, 3, 1);
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 3, PRIO(2) | 1);
	b->hold = 0;
	CHECK(reaches(&b->count[3], 2), "also while the vCPU runs");

	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 6, PRIO(1) | LEVEL | RESAMPLE | 1);
	resample.fd = eventfd(0, 0);
	resample.resamplefd = eventfd(0, EFD_NONBLOCK);
	CHECK(ioctl(vm.fd, KVM_IRQFD, &resample) == 0, "resample irqfd");
	if (write(resample.fd, &one, 8) != 8)
		fatal("write to an eventfd");
	CHECK(reaches(&b->count[6], 1), "a resample irqfd interrupts");
	usleep(20000);
	CHECK(read(resample.resamplefd, &got, 8) == 8 && got == 1,
	      "its completion is signalled once");
	CHECK(b->count[6] == 1, "and does not interrupt again");

	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 7, PRIO(1) | LEVEL);
	a->hold = 1;
	irq_line(&vm, 7, 1);
	CHECK(reaches(&a->count[7], 1), "a level");
	irq_line(&vm, 7, 0);
	a->hold = 0;
	usleep(20000);
	CHECK(a->count[7] == 1, "lowered before completion: once");
	a->hold = 1;
	irq_line(&vm, 7, 1);
	reaches(&a->count[7], 2);
	a->hold = 0;
	/* Again and again while the line is high */
	usleep(20000);
	CHECK(a->count[7] > 3, "pending again on completion");
	irq_line(&vm, 7, 0);
	/* What was claimed before is counted, too */
	usleep(20000);

	/* Moved between claim and completion */
	got = a->count[7];
	a->hold = 1;
	irq_line(&vm, 7, 1);
	reaches(&a->count[7], got + 1);
	b->hold = 1;
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 7, PRIO(1) | LEVEL | 1);
	usleep(20000);
	CHECK(b->count[7] == 0, "a claimed level is not pending elsewhere");
	a->hold = 0;
	CHECK(reaches(&b->count[7], 1), "completed, it is where it was moved to");
	irq_line(&vm, 7, 0);
	b->hold = 0;
	usleep(20000);
	CHECK(a->count[7] == got + 1 && b->count[7] == 1, "and only there");

	/* Software interrupts: 0 -> 1, by the instruction */
	usleep(20000);
	a->argument = 2;
	a->command = 1;
	irq_line(&vm, 1, 1);
	CHECK(reaches(&b->soft, 1), "sgenipi wakes a sleeping vCPU");
	/* Beyond the domain's vharts: nothing, and nothing breaks */
	a->argument = 0x400ULL << 32 | 0xffffffff;
	a->command = 1;
	irq_line(&vm, 1, 1);
	usleep(20000);
	CHECK(a->command == 0 && a->soft == 0 && b->soft == 1 &&
	      a->exceptions == 0, "sgenipi to nobody");
	a->argument = 0;
	a->command = 2;
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->exceptions, 1) && a->cause == 2,
	      "registers of the host are illegal for the guest");

	/*
	 * Something masked by sie is pending for a vCPU that waits: it must
	 * neither keep the host busy nor hide what comes next.
	 */
	b->sie = SEIE;
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 2, PRIO(1) | 1);
	irq_line(&vm, 2, 1);
	reaches(&b->count[2], 1);
	usleep(20000);
	a->argument = 2;
	a->command = 1;
	irq_line(&vm, 1, 1);
	usleep(20000);
	before = notifications(-1);
	usleep(100000);
	CHECK(notifications(-1) - before < 5, "masked and pending: %lu notifications",
	      notifications(-1) - before);
	CHECK(b->soft == 1, "it stays masked");
	irq_line(&vm, 2, 1);
	CHECK(reaches(&b->count[2], 2), "another interrupt gets through");
	b->sie = SEIE | SSIE;
	irq_line(&vm, 2, 1);
	CHECK(reaches(&b->soft, 2), "the masked one is taken when unmasked");

	/* Switch to native WFI and back while the guest runs */
	native_wfi(&vm, 1);
	got = a->count[1];
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], got + 1), "native WFI");
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], got + 2), "wakes without an exit");
	native_wfi(&vm, 0);

	stop(&vm.vcpus[0]);
	stop(&vm.vcpus[1]);
	got = a->count[1];
	irq_line(&vm, 1, 1);
	CHECK(vcpu_word(&vm, 0, 0) == 2, "pending for a stopped vCPU");
	start(&vm.vcpus[0]);
	CHECK(reaches(&a->count[1], got + 1), "taken when it runs again");
	stop(&vm.vcpus[0]);
	close(irqfd.fd);
	close(resample.fd);
	close(resample.resamplefd);
	destroy_vm(&vm);
}

#define RESAMPLES	200

/* A resample irqfd of source 6, which must be told of its completions by @told */
static int add_resample(struct vm *vm, int told)
{
	struct kvm_irqfd irqfd = { .gsi = 6, .flags = KVM_IRQFD_FLAG_RESAMPLE,
				   .fd = eventfd(0, 0), .resamplefd = told };

	if (irqfd.fd < 0 || ioctl(vm->fd, KVM_IRQFD, &irqfd))
		fatal("create a resample irqfd");
	return irqfd.fd;
}

static void stay_on(int cpu)
{
	cpu_set_t cpus;
	int i;

	CPU_ZERO(&cpus);
	for (i = 0; i < VCPUS; i++)
		if (cpu < 0 || cpu == i)
			CPU_SET(i, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fatal("pin this thread");
}

/* SYNC has passed on every completion: so many eventfds that it takes its time */
static void test_resample(void)
{
	int i, others = eventfd(0, EFD_NONBLOCK), last = eventfd(0, EFD_NONBLOCK);
	int irqfds[RESAMPLES], late = 0, never = 0;
	uint32_t line;
	uint64_t got;
	struct vm vm;

	create_domain(&vm, 1);
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 6, PRIO(1) | LEVEL | RESAMPLE);
	/* The one that comes first is signalled last */
	for (i = 0; i < RESAMPLES; i++)
		irqfds[i] = add_resample(&vm, i ? others : last);
	stay_on(0);
	vm.vcpus[0].cpu = 1;
	start(&vm.vcpus[0]);
	for (i = 0; i < 100; i++) {
		irq_line(&vm, 6, 1);
		do
			attr(&vm, KVM_GET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_LINE,
			     6, &line);
		while (line);
		attr(&vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL,
		     KVM_DEV_TRAPLESS_CTRL_SYNC, NULL);
		if (read(last, &got, 8) == 8)
			continue;
		late++;
		usleep(10000);
		never += read(last, &got, 8) != 8;
	}
	CHECK(!late && !never,
	      "SYNC waits for completions: %d of 100 came later, %d never", late,
	      never);
	stop(&vm.vcpus[0]);
	stay_on(-1);
	for (i = 0; i < RESAMPLES; i++)
		close(irqfds[i]);
	close(last);
	close(others);
	destroy_vm(&vm);
}

/* Lines of sources that have none, and of those that get one */
static void test_lines(void)
{
	uint32_t line = 1;
	struct vm vm;

	create_domain(&vm, 1);
	if (grant(&vm, 1, 2))
		fatal("get a grant");
	/* ASSERT of an edge */
	CHECK(inject(1ULL << 60 | 1), "the line of an edge is asserted");
	attr(&vm, KVM_GET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_LINE, 1, &line);
	CHECK(line == 0, "it has none");
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1, PRIO(1) | LEVEL);
	attr(&vm, KVM_GET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_LINE, 1, &line);
	CHECK(line == 0, "as a level, it is low");
	irq_line(&vm, 1, 1);
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1, PRIO(2) | LEVEL);
	attr(&vm, KVM_GET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_LINE, 1, &line);
	CHECK(line == 1, "a level keeps its line");
	grant(&vm, 0, 0);
	destroy_vm(&vm);
}

/* How many of @number domains KVM grants; the error of the next in @error */
static int take_domains(int number, int *error)
{
	static struct vm vms[4];
	int taken, i;

	*error = 0;
	for (taken = 0; taken < number; taken++) {
		create_vm(&vms[taken], 1);
		*error = create_device(&vms[taken]);
		if (!*error)
			*error = attr(&vms[taken], KVM_SET_DEVICE_ATTR,
				      KVM_DEV_TRAPLESS_GRP_CTRL,
				      KVM_DEV_TRAPLESS_CTRL_INIT, NULL);
		if (*error)
			break;
	}
	for (i = 0; i < number && i <= taken; i++)
		destroy_vm(&vms[i]);

	return taken;
}

static void limit_domains(const char *number)
{
	int file = open("/sys/module/kvm/parameters/domains_per_user", O_WRONLY);

	if (file < 0 || write(file, number, strlen(number)) < 0 || close(file))
		fatal("set the number of domains for each user");
}

/* Becomes a user whose id is one of 65536 that belong to user 1000 */
static void become_subordinate(int ask, int answer)
{
	char byte = 0;

	if (unshare(CLONE_NEWUSER) || write(ask, &byte, 1) != 1 ||
	    read(answer, &byte, 1) != 1 || setuid(1))
		_exit(100);
}

static void map_users(pid_t child)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	file = fopen(path, "w");
	if (!file || fprintf(file, "0 1000 1\n1 100000 65536\n") < 0 ||
	    fclose(file))
		fatal("map user ids");
}

/* The users that a user makes are this user */
static void test_subordinates(void)
{
	int ask[2], answer[2], error, taken, status;
	char byte = 0;
	pid_t child;

	if (pipe(ask) || pipe(answer))
		fatal("make pipes");
	fflush(stdout);
	child = fork();
	if (!child) {
		static struct vm vm;

		if (setuid(1000) || prctl(PR_SET_DUMPABLE, 1))
			_exit(100);
		create_vm(&vm, 1);
		if (create_device(&vm) ||
		    attr(&vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL,
			 KVM_DEV_TRAPLESS_CTRL_INIT, NULL))
			_exit(100);
		become_subordinate(ask[1], answer[0]);
		taken = take_domains(3, &error);
		_exit(error == -EDQUOT ? taken : 100);
	}
	if (read(ask[0], &byte, 1) != 1)
		fatal("hear of the child");
	map_users(child);
	if (write(answer[1], &byte, 1) != 1)
		fatal("tell the child");
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2,
	      "nor as a user of its own user namespace (%d)",
	      WEXITSTATUS(status));
}

/* A user cannot take all domains; they come back when their VMs end */
static void test_limit(void)
{
	int i, error, taken, status;
	pid_t child;

	limit_domains("3");
	fflush(stdout);
	child = fork();
	if (!child) {
		if (setuid(1000))
			_exit(100);
		for (i = 0; i < 100; i++)
			take_domains(1, &error);
		taken = take_domains(4, &error);
		_exit(error == -EDQUOT ? taken : 100);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3,
	      "a user's fourth domain of three is refused");
	test_subordinates();
	CHECK(take_domains(4, &error) == 4, "not so with CAP_SYS_RESOURCE");
	limit_domains("256");
}

static const struct {
	const char *name;
	void (*run)(void);
	/* For any host, also without Xtrapless */
	int anywhere;
	/* Takes long: not unless it is named */
	int is_long;
} tests[] = {
	{ "boost", test_boost, .anywhere = 1 },
	{ "boost-long", test_boost_long, .anywhere = 1, .is_long = 1 },
	{ "boost-very-long", test_boost_very_long, .anywhere = 1, .is_long = 1 },
	{ "grant", test_grant },
	{ "guest", test_guest },
	{ "resample", test_resample },
	{ "lines", test_lines },
	{ "flood", test_flood },
	{ "limit", test_limit },
	{ "hog", test_hog },
	{ "events", test_events },
	{ "contexts", test_contexts },
	{ "context-hostile", test_context_hostile },
	{ "context-rights", test_context_rights },
	{ "context-stress", test_context_stress },
	{ }
};

/* Is the test one of those that the command line names, or names it none? */
static int wanted(int test, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], tests[test].name))
			return 1;
	return argc == 1 && !tests[test].is_long;
}

int main(int argc, char **argv)
{
	struct sigaction ill = { .sa_handler = on_sigill };
	int i, trapless, ran = 0;

	sigaction(SIGILL, &ill, NULL);
	if (argc == 2 && !strcmp(argv[1], AFTER_EXECVE))
		return after_execve();

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fatal("open /dev/kvm");
	trapless = ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_TRAPLESS) > 0;

	for (i = 0; tests[i].name; i++) {
		if (!wanted(i, argc, argv))
			continue;
		if (trapless || tests[i].anywhere) {
			tests[i].run();
			ran++;
		} else {
			printf("skip %s: KVM offers no Xtrapless\n", tests[i].name);
		}
	}
	if (!ran)
		return 4;
	printf("failures=%d\n", failures);

	return failures != 0;
}
