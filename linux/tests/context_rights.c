// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a process with a user context may do, and until when
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "contexts.h"
#include "tests.h"
#include "vm.h"

#define SOURCE		5
#define MODULE		"/tests/trapless_suspend.ko"
#define TICK_US		4000
/* Until contexts have followed their threads, which they do each second */
#define FOLLOW_US	1100000

/* CAP_SYS_NICE for this thread, or not */
static void may_be_nice(int may)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &header, caps))
		fatal("capget");
	caps[0].effective &= ~(1U << CAP_SYS_NICE);
	if (may)
		caps[0].effective |= 1U << CAP_SYS_NICE;
	if (syscall(SYS_capset, &header, caps))
		fatal("capset");
}

/* Time of guests that somebody else could not get either */
static void test_time(void)
{
	int device = uctx_create();
	int budget, cpu;

	pin(0);
	may_be_nice(0);
	budget = uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_BUDGET, 20001);
	cpu = uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_CPU, 1);
	CHECK(budget == -EPERM && cpu == -EPERM,
	      "a large budget or a CPU that a process may not use is refused");
	CHECK(!uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_BUDGET, 20000) &&
	      !uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_CPU, 0),
	      "the usual one and a CPU of its own are not");
	may_be_nice(1);
	CHECK(!uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_BUDGET, 20001) &&
	      !uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_CPU, 1),
	      "nor anything with CAP_SYS_NICE");
	close(device);
}

/* How many of so many requests the thread of a backend ran the handler for */
static uint64_t run_by_thread(volatile struct shared *guest, struct backend *b,
			      uint64_t count)
{
	uint64_t before = backend_stats(b).begun;
	int answered = requests(guest, count);
	struct kvm_uctx_stats stats = backend_stats(b);

	printf("     by the thread %llu, handed over %llu\n", stats.begun - before,
	       stats.handed);
	if (!answered)
		printf("     not answered\n");

	return answered ? stats.begun + stats.handed - before : ~0ULL;
}

/*
 * Handlers take no time from a guest whose owner has not agreed, nor from any on a
 * CPU that has been taken away from their thread.
 */
static void test_agreement(void)
{
	const uint64_t count = 100;
	volatile struct shared *guest;
	cpu_set_t cpu0;
	struct vm vm, other;
	struct backend b;

	pin(0);
	CPU_ZERO(&cpu0);
	CPU_SET(0, &cpu0);
	create_private_domain(&vm, 1);
	doorbell(&vm, &b, DOORBELL);
	guest = vm.vcpus[0].shared;
	spin(&vm, 0, 0);
	start_backend(&b, guest, 1, (uintptr_t)handler);

	create_private_domain(&other, 1);
	spin(&other, 0, 1);
	CHECK(run_by_thread(guest, &b, count) == count,
	      "a guest that has not agreed is not interrupted by handlers");
	stop(&other.vcpus[0]);
	destroy_vm(&other);

	create_domain(&other, 1);
	spin(&other, 0, 1);
	CHECK(run_by_thread(guest, &b, count) < count / 10, "one that has agreed is");
	sched_setaffinity(b.process, sizeof(cpu0), &cpu0);
	usleep(FOLLOW_US);
	CHECK(run_by_thread(guest, &b, count) == count,
	      "until its CPU is taken away from the thread");
	stop(&other.vcpus[0]);
	destroy_vm(&other);

	kill_backend(&b);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	close(b.eventfd);
}

/* A VM with vCPUs has told what it agrees to. */
static void test_agreement_comes_first(void)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_RISCV_UCTX,
		.args[0] = KVM_CAP_RISCV_UCTX_INTERRUPT,
	};
	struct vm vm;
	int late, unknown;

	create_vm(&vm, 1);
	late = ioctl(vm.fd, KVM_ENABLE_CAP, &cap) ? errno : 0;
	cap.args[0] = 2;
	unknown = ioctl(vm.fd, KVM_ENABLE_CAP, &cap) ? errno : 0;
	CHECK(late == EBUSY && unknown == EINVAL,
	      "who has vCPUs does not agree any more, nor to what is unknown");
	destroy_vm(&vm);
}

/* What injector in handler.S knows */
struct injected {
	uint64_t handlers;
	uint64_t value;
	uint64_t ready;
};

static int call_source(int device, uint64_t *source)
{
	struct kvm_device_attr a = {
		.group = KVM_DEV_UCTX_GRP_CALL,
		.addr = (uintptr_t)source,
	};

	return ioctl(device, KVM_GET_DEVICE_ATTR, &a) ? -errno : 0;
}

/* A process whose handler injects what @call does, each time that @kick is written to */
static pid_t inject_by_handler(int kick, int call, volatile struct injected *state)
{
	struct kvm_uctx_run run;
	uint64_t source;
	int device;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child)
		return child;

	device = uctx_create();
	if (uctx_set(device, KVM_DEV_UCTX_GRP_CALL, 0, call) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_KICK, 0, kick) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_UTVEC,
		     (uintptr_t)injector) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_USCRATCH,
		     (uintptr_t)state) ||
	    call_source(device, &source))
		fatal("set up a user context");
	state->value = source;
	state->ready = 1;
	for (;;)
		ioctl(device, KVM_UCTX_RUN, &run);
}

static void route(struct vm *vm, uint32_t gsi, uint32_t pin)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry entry;
	} routing = {
		.head.nr = 1,
		.entry = {
			.gsi = gsi,
			.type = KVM_IRQ_ROUTING_IRQCHIP,
			.u.irqchip.pin = pin,
		},
	};

	if (ioctl(vm->fd, KVM_SET_GSI_ROUTING, &routing))
		fatal("route an interrupt");
}

/* Has a kick begun a handler that injected @source? */
static int injects(volatile struct shared *guest, int kick,
		   volatile struct injected *state, int source)
{
	uint64_t handlers = state->handlers, count = guest->count[source], one = 1;

	if (write(kick, &one, 8) != 8)
		fatal("kick");
	if (!reaches(&state->handlers, handlers + 1))
		return -1;
	usleep(20000);

	return guest->count[source] != count;
}

/*
 * A handler injects in the place of an irqfd: not after that has gone, or says
 * something else.
 */
static void test_revoked(void)
{
	struct kvm_irqfd irqfd = { .gsi = SOURCE };
	volatile struct injected *state;
	volatile struct shared *guest;
	int kick = eventfd(0, EFD_NONBLOCK);
	struct vm vm;
	pid_t child;

	state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	create_domain(&vm, 1);
	guest = vm.vcpus[0].shared;
	start(&vm.vcpus[0]);
	route(&vm, SOURCE, SOURCE);
	irqfd.fd = eventfd(0, 0);
	if (ioctl(vm.fd, KVM_IRQFD, &irqfd))
		fatal("assign an irqfd");
	child = inject_by_handler(kick, irqfd.fd, state);
	reaches(&state->ready, 1);
	CHECK(injects(guest, kick, state, SOURCE) == 1, "a handler injects what an irqfd does");
	route(&vm, SOURCE, SOURCE + 1);
	CHECK(injects(guest, kick, state, SOURCE) != 1, "not after that has another route");
	route(&vm, SOURCE, SOURCE);
	CHECK(injects(guest, kick, state, SOURCE) == 1, "again, when it has the old one");
	irqfd.flags = KVM_IRQFD_FLAG_DEASSIGN;
	if (ioctl(vm.fd, KVM_IRQFD, &irqfd))
		fatal("take back an irqfd");
	CHECK(injects(guest, kick, state, SOURCE) != 1, "and not after it has gone");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	close(irqfd.fd);
	close(kick);
	munmap((void *)state, 4096);
}

/* Functions that other CPUs have called on a CPU */
static unsigned long function_calls(int cpu)
{
	unsigned long calls = 0, number;
	char line[4096], *at;
	FILE *file;
	int i;

	file = fopen("/proc/interrupts", "r");
	if (!file)
		fatal("/proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		at = strchr(line, ':');
		if (!at || !strstr(line, "Function call interrupts"))
			continue;
		for (at++, i = 0; i <= cpu; i++)
			number = strtoul(at, &at, 10);
		calls += number;
	}
	fclose(file);

	return calls;
}

/*
 * Whatever may run elsewhere does not run on CPU 1, or may again: to wake it up there is
 * a function call, too.
 */
static void isolate(int isolated)
{
	cpu_set_t cpus;
	struct dirent *entry;
	DIR *tasks = opendir("/proc");
	int file, pid;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (!isolated)
		CPU_SET(1, &cpus);
	while (tasks && (entry = readdir(tasks))) {
		pid = atoi(entry->d_name);
		/* Threads that belong to a CPU stay there */
		if (pid > 0)
			sched_setaffinity(pid, sizeof(cpus), &cpus);
	}
	closedir(tasks);
	file = open("/sys/devices/virtual/workqueue/cpumask", O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, isolated ? "1" : "3", 1) != 1)
		fatal("say where work is done");
	close(file);
}

#define CONTEXTS	50
#define USER		1000

/*
 * Contexts that come, may inject, run a handler in their thread, and go, in a process
 * of a user on CPU 0. How often is its handler run?
 */
static void come_and_go(volatile struct state *state)
{
	struct kvm_irqfd irqfd = { .gsi = SOURCE, .fd = eventfd(0, 0) };
	int kick = eventfd(0, EFD_NONBLOCK), i, device;
	struct kvm_uctx_run run;
	uint64_t one = 1;
	struct vm vm;

	if (chmod("/dev/kvm", 0666) || setgid(USER) || setuid(USER))
		fatal("become a user who may open /dev/kvm");
	create_private_domain(&vm, 1);
	route(&vm, SOURCE, SOURCE);
	if (ioctl(vm.fd, KVM_IRQFD, &irqfd))
		fatal("assign an irqfd");
	for (i = 0; i < CONTEXTS; i++) {
		device = uctx_create();
		if (uctx_set(device, KVM_DEV_UCTX_GRP_CALL, 0, irqfd.fd) ||
		    uctx_set(device, KVM_DEV_UCTX_GRP_KICK, 0, kick) ||
		    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_UTVEC,
			     (uintptr_t)handler) ||
		    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_USCRATCH,
			     (uintptr_t)state))
			fatal("set up a user context");
		route(&vm, SOURCE, SOURCE + (i & 1));
		if (write(kick, &one, 8) != 8 || ioctl(device, KVM_UCTX_RUN, &run))
			fatal("run a handler");
		uctx_set(device, KVM_DEV_UCTX_GRP_CALL, 0, ~0ULL);
		close(device);
	}
}

/* Whatever a user does with contexts, CPUs without guests of others are left alone. */
static void test_left_alone(void)
{
	volatile struct state *state;
	unsigned long calls, beside;
	int status;
	pid_t child;

	pin(0);
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	state->order = ECALL;

	isolate(1);
	/* What else calls functions there, in the same time */
	beside = function_calls(1);
	usleep(CONTEXTS * 3 * TICK_US);
	beside = function_calls(1) - beside;
	calls = function_calls(1);
	fflush(stdout);
	child = fork();
	if (!child) {
		come_and_go(state);
		_exit(0);
	}
	waitpid(child, &status, 0);
	calls = function_calls(1) - calls;
	isolate(0);
	CHECK(!status && state->begun == CONTEXTS,
	      "a user's contexts come and go: %lu handlers", state->begun);
	CHECK(calls <= beside + CONTEXTS / 2,
	      "other CPUs are left alone: interrupted %lu times, %lu without contexts",
	      calls, beside);
	munmap((void *)state, sizeof(*state));
}

/* A handler on a CPU that came on line after its thread began cannot keep a page. */
static void test_late_cpu(void)
{
	volatile struct shared *guest;
	struct backend b;
	struct vm vm;
	uint64_t left;
	int i;

	pin(0);
	backend_cpu = 0;
	set_online(1, "0");
	create_domain(&vm, 1);
	doorbell(&vm, &b, DOORBELL);
	guest = vm.vcpus[0].shared;
	start_backend(&b, guest, KVM_DEV_UCTX_CPU_OWN, (uintptr_t)handler);
	set_online(1, "1");
	spin(&vm, 0, 1);
	b.state->order = TOUCH;
	CHECK(requests(guest, 200), "a CPU that comes while a context is open");
	left = b.state->left;
	b.state->done = 0;
	b.state->meanwhile = UNMAP;
	reaches(&b.state->done, 1);
	for (i = 0; i < 50 && b.state->left == left; i++) {
		kick(guest);
		usleep(TICK_US);
		guest->answer = guest->request;
		idle(guest);
	}
	CHECK(i == 1 && b.state->run.cause == 15,
	      "is told of pages that are unmapped");
	kill_backend(&b);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	backend_cpu = 1;
}

/* Suspends CPU 1 in a process of its own. */
static pid_t suspend(const char *options)
{
	pid_t child;
	int file;

	fflush(stdout);
	child = fork();
	if (child)
		return child;
	file = open(MODULE, O_RDONLY);
	_exit(syscall(SYS_finit_module, file, options, 0) ? errno : 0);
}

/* Why it was not suspended, or 0 */
static int refused(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		syscall(SYS_delete_module, "trapless_suspend", 0);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Microseconds until a kick is heard */
static uint64_t delay(volatile struct shared *guest, struct backend *b)
{
	struct pollfd p = { .fd = b->eventfd, .events = POLLIN };
	uint64_t start = now_us(), heard;

	guest->argument = DOORBELL;
	guest->repeat = 1;
	guest->command = KICKS;
	poll(&p, 1, 1000);
	start = now_us() - start;
	if (read(b->eventfd, &heard, 8) != 8)
		printf("     not heard\n");
	idle(guest);

	return start;
}

/* Events of the VM are told to CPUs that a thread of its process may run on: to any. */
static void *may_run_anywhere(void *unused)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
	pause();

	return NULL;
}

/* A CPU that is told of events is not suspended so deep that it does not hear them. */
static void test_suspended(void)
{
	static const char options[] = "cpu=1 haiov=1 ms=200";
	pthread_t anywhere;
	volatile struct shared *guest;
	uint64_t before, during;
	struct backend b;
	struct vm vm;
	pid_t child;
	int error;

	error = refused(suspend(options));
	if (error == EBADF || error == ENOEXEC) {
		printf("skip: there is no " MODULE " for this kernel\n");
		return;
	}
	CHECK(!error, "a CPU that nobody tells anything is suspended");
	pthread_create(&anywhere, NULL, may_run_anywhere, NULL);
	pin(0);
	create_domain(&vm, 1);
	guest = vm.vcpus[0].shared;
	spin(&vm, 0, 0);

	/* Whoever names it wakes it up */
	child = suspend(options);
	usleep(50000);
	before = now_us();
	doorbell(&vm, &b, DOORBELL);
	during = delay(guest, &b) + now_us() - before;
	/* It would sleep 150 ms more */
	CHECK(!refused(child) && during < 10 * TICK_US,
	      "and wakes up for the first doorbell (%lu us)", during);
	before = delay(guest, &b);

	child = suspend(options);
	usleep(50000);
	during = delay(guest, &b);
	CHECK(refused(child) > 0 && during < before + TICK_US,
	      "one that is told is not: a kick is heard in %lu us, else in %lu",
	      during, before);
	pthread_cancel(anywhere);
	pthread_join(anywhere, NULL);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	close(b.eventfd);
}

void test_context_rights(void)
{
	cpu_set_t all;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) <= 0) {
		printf("skip: KVM offers no user contexts\n");
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	test_time();
	sched_setaffinity(0, sizeof(all), &all);
	test_agreement();
	test_agreement_comes_first();
	sched_setaffinity(0, sizeof(all), &all);
	test_revoked();
	test_left_alone();
	test_late_cpu();
	test_suspended();
	sched_setaffinity(0, sizeof(all), &all);
}
