// SPDX-License-Identifier: GPL-2.0-only
/*
 * User contexts: a process whose handler answers the requests of a guest, on the
 * guest's own CPU, on that of another guest, or in its thread; and what it can do
 * wrong.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "contexts.h"
#include "tests.h"
#include "vm.h"

int backend_cpu = 1;

int uctx_set(int device, uint32_t group, uint64_t attr, uint64_t value)
{
	struct kvm_device_attr a = {
		.group = group,
		.attr = attr,
		.addr = (uintptr_t)&value,
	};

	return ioctl(device, KVM_SET_DEVICE_ATTR, &a) ? -errno : 0;
}

static void uctx_stats(int device, volatile struct kvm_uctx_stats *stats)
{
	struct kvm_device_attr a = {
		.group = KVM_DEV_UCTX_GRP_STATS,
		.addr = (uintptr_t)stats,
	};

	ioctl(device, KVM_GET_DEVICE_ATTR, &a);
}

int uctx_create(void)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_UCTX };
	int vm, own = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	vm = ioctl(own, KVM_CREATE_VM, 0);
	if (vm < 0 || ioctl(vm, KVM_CREATE_DEVICE, &cd))
		fatal("create a user context");

	return cd.fd;
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * vCPUs and handlers never wait: among them this thread would only run at ticks,
 * and do anything once for thousands of requests. What it starts is as they are.
 */
void come_first(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, (priority ? SCHED_FIFO : SCHED_OTHER) |
			       SCHED_RESET_ON_FORK, &param))
		fatal("sched_setscheduler");
}

/* A child has the file, but neither the address space nor the handler. */
static int run_in_child(volatile struct state *state)
{
	struct kvm_uctx_run run;
	int status;
	pid_t child = fork();

	if (!child)
		_exit(ioctl(state->device, KVM_UCTX_RUN, &run) < 0 ? errno : 0);
	waitpid(child, &status, 0);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Another process with the same memory may run the handler. */
static _Noreturn int run_in_clone(void *argument)
{
	volatile struct state *state = argument;
	struct kvm_uctx_run run;

	for (;;)
		ioctl(state->device, KVM_UCTX_RUN, &run);
}

static void *other_thread(void *argument)
{
	volatile struct state *state = argument;
	static char stack[16384];
	uint64_t cpu = backend_cpu;
	char *memory;
	pid_t child;

	for (;;) {
		if (state->other_cpu != cpu) {
			cpu = state->other_cpu;
			pin(cpu);
		}
		switch (state->meanwhile) {
		case MAP_UNMAP:
			memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(memory, 1, 65536);
			munmap(memory, 65536);
			state->done++;
			break;
		case FORK:
			state->done = run_in_child(state);
			state->meanwhile = 0;
			break;
		case UNMAP:
			munmap((void *)state->address, 4096);
			state->done = 1;
			state->meanwhile = 0;
			break;
		case OVERWRITE:
			*(volatile uint64_t *)state->address = state->garbage;
			break;
		case PROTECT:
			mprotect((void *)state->address, 4096, PROT_NONE);
			mprotect((void *)state->address, 4096,
				 PROT_READ | PROT_WRITE | PROT_EXEC);
			state->done++;
			break;
		case VFORK:
			child = vfork();
			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
			state->done++;
			break;
		case CLONE:
			state->done = clone(run_in_clone, stack + sizeof(stack),
					    CLONE_VM | SIGCHLD, (void *)state);
			state->meanwhile = 0;
			break;
		case EXECVE:
			execl("/bin/sh", "sh", "-c", "sleep 100", NULL);
			fatal("execve");
		default:
			usleep(1000);
		}
	}
}

/* What is to end KVM_UCTX_RUN must not end what comes before */
static void block_sigusr1(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

/* One came, of those that backend_stats() sends */
static volatile sig_atomic_t asked;

/* The process of the handler: a thread in KVM_UCTX_RUN, and another. */
static _Noreturn void serve(volatile struct state *state, int kick, uint64_t cpu,
			    uint64_t utvec)
{
	int device = uctx_create();
	struct kvm_uctx_run run;
	pthread_t other;
	long error;

	pin(backend_cpu);
	state->device = device;
	pthread_create(&other, NULL, other_thread, (void *)state);
	/* Its own view of what it was told to touch: nothing there yet */
	state->address = (uintptr_t)mmap(NULL, 4096,
					 PROT_READ | PROT_WRITE | PROT_EXEC,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (utvec == COPY) {
		utvec = state->address;
		memcpy((void *)utvec, handler, handler_end - handler);
		__builtin___clear_cache((char *)utvec, (char *)utvec + 4096);
	}
	if (uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_UTVEC, utvec) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_USCRATCH,
		     (uintptr_t)state) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_ATTR, KVM_DEV_UCTX_CPU, cpu) ||
	    uctx_set(device, KVM_DEV_UCTX_GRP_KICK, VECTOR, kick))
		fatal("set up a user context");
	block_sigusr1(SIG_UNBLOCK);
	state->ready = 1;

	for (;;) {
		error = ioctl_with_floats(device, KVM_UCTX_RUN, &run,
					  &state->floats_changed);
		if (error) {
			state->error = -error;
			if (error != -EINTR)
				_exit(1);
			/* The kernel wanted the thread for a moment */
			if (!asked)
				continue;
			asked = 0;
		} else {
			state->run = run;
		}
		uctx_stats(device, &state->stats);
		state->left++;
	}
}

static void answer(int signal)
{
	asked = 1;
}

struct kvm_uctx_stats backend_stats(struct backend *b)
{
	uint64_t left = b->state->left;

	kill(b->process, SIGUSR1);
	reaches(&b->state->left, left + 1);

	return b->state->stats;
}

void spawn_backend(struct backend *b, volatile struct shared *guest, uint64_t cpu,
		   uint64_t utvec)
{
	b->state = mmap(NULL, sizeof(*b->state), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	b->state->guest = guest;
	b->state->other_cpu = backend_cpu;
	memset((void *)b->state->x, 0xff, sizeof(b->state->x));
	fflush(stdout);
	b->process = fork();
	if (!b->process) {
		block_sigusr1(SIG_BLOCK);
		signal(SIGUSR1, answer);
		serve(b->state, b->eventfd, cpu, utvec);
	}
}

void start_backend(struct backend *b, volatile struct shared *guest, uint64_t cpu,
		   uint64_t utvec)
{
	spawn_backend(b, guest, cpu, utvec);
	CHECK(reaches(&b->state->ready, 1), "a process has a context");
	/* It is about to be in KVM_UCTX_RUN */
	usleep(20000);
}

void kill_backend(struct backend *b)
{
	kill(b->process, SIGKILL);
	waitpid(b->process, NULL, 0);
	munmap((void *)b->state, sizeof(*b->state));
}

void doorbell(struct vm *vm, struct backend *b, uint64_t address)
{
	struct kvm_ioeventfd bell = { .addr = address, .len = 4 };

	b->eventfd = eventfd(0, EFD_NONBLOCK);
	b->address = address;
	bell.fd = b->eventfd;
	if (b->eventfd < 0 || ioctl(vm->fd, KVM_IOEVENTFD, &bell))
		fatal("KVM_IOEVENTFD");
}

int requests(volatile struct shared *guest, uint64_t count)
{
	uint64_t last = guest->request + count;
	int tries;

	guest->argument = DOORBELL;
	guest->repeat = count;
	guest->command = REQUESTS;
	for (tries = 0; tries < 20 && guest->answer != last; tries++)
		if (reaches(&guest->answer, last))
			break;
	idle(guest);

	return guest->answer == last && guest->request == last;
}

void idle(volatile struct shared *guest)
{
	int i;

	for (i = 0; i < 10000 && guest->command; i++)
		usleep(100);
}

void kick(volatile struct shared *guest)
{
	idle(guest);
	guest->argument = DOORBELL;
	guest->repeat = 1;
	guest->command = REQUESTS;
}

static int sees_nothing(volatile struct state *state)
{
	int i, set = 0;

	for (i = 1; i < 32; i++)
		set += state->x[i] != 0;

	return !set;
}

static void test_where(struct vm *vm, struct backend *b, uint64_t cpu,
		       const char *where, int in_thread)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	struct kvm_uctx_stats stats;

	start_backend(b, guest, cpu, (uintptr_t)handler);
	CHECK(requests(guest, 1000), "%s: 1000 requests are answered", where);
	CHECK(b->state->pending == 1 << VECTOR, "%s: utval names the vector", where);
	CHECK(sees_nothing(b->state), "%s: the handler finds no register", where);
	CHECK(!b->state->uepc && !b->state->utinst &&
	      b->state->utvec == (uintptr_t)handler &&
	      b->state->ucause == (1ULL << 63 | 8),
	      "%s: nor what is not its own in those of user mode", where);
	stats = backend_stats(b);
	printf("     begun %lu, by the thread %llu, handed over %llu\n",
	       b->state->begun, stats.begun, stats.handed);
	CHECK(in_thread ? stats.begun > 900 : stats.begun + stats.handed < 100,
	      "%s: the thread runs %s", where, in_thread ? "them" : "few or none");
	CHECK(!b->state->floats_changed,
	      "%s: the thread finds its floating point as it was", where);
	kill_backend(b);
}

/* Does the guest go round its loop? */
static int runs(volatile struct shared *guest)
{
	uint64_t rounds = guest->rounds;

	usleep(20000);
	return guest->rounds > rounds + 1;
}

void check_guest(struct vm *vm, struct backend *b, const char *what)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	uint64_t count;

	while (read(b->eventfd, &count, 8) == 8)
		;
	/* What the handler left unanswered */
	guest->answer = guest->request;
	CHECK(runs(guest), "%s: the guest goes on", what);
	guest->repeat = 1;
	guest->argument = DOORBELL;
	guest->command = REQUESTS;
	usleep(50000);
	CHECK(read(b->eventfd, &count, 8) == 8, "%s: kicks are eventfd's again", what);
	guest->answer = guest->request;
}

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

/* A handler that is handed over goes on at once, not at the next tick of its CPU. */
static void test_long(struct vm *vm, struct backend *b)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	struct kvm_uctx_stats stats;
	uint64_t before;

	start_backend(b, guest, KVM_DEV_UCTX_CPU_OWN, (uintptr_t)handler);
	b->state->order = LONG;
	before = now_us();
	CHECK(requests(guest, 100), "requests that take long are answered");
	before = now_us() - before;
	stats = backend_stats(b);
	printf("     %lu us, by the thread %llu, handed over %llu\n", before,
	       stats.begun, stats.handed);
	/* Those that come while it has one are its own */
	CHECK(stats.handed && stats.handed + stats.begun >= 90,
	      "by the thread, which they are handed over to");
	CHECK(before < 30000, "and nobody waits for its tick");
	kill_backend(b);
}

static void test_mistakes(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	struct kvm_uctx_stats stats;
	uint64_t left, rounds, kicks;

	/* More time than its budget */
	start_backend(b, guest, cpu, (uintptr_t)handler);
	b->state->order = SPIN;
	guest->argument = DOORBELL;
	guest->repeat = 1;
	guest->command = REQUESTS;
	reaches(&b->state->begun, 1);
	usleep(50000);
	stats = backend_stats(b);
	/* Unless it is the one to begin it, which it may be */
	CHECK(stats.handed + stats.begun == 1, "a handler without end is its thread's");
	b->state->order = 0;
	CHECK(reaches(&guest->answer, guest->request) && b->state->begun == 1,
	      "which goes on in the same place");
	CHECK(requests(guest, 100), "and then interrupts the guest again");

	b->state->order = TOUCH;
	CHECK(requests(guest, 10), "a page that is not there yet");
	stats = backend_stats(b);
	CHECK(stats.handed + stats.begun >= 2, "is the thread's to get");
	b->state->order = 0;
	kill_backend(b);
	check_guest(vm, b, "backend killed");

	start_backend(b, guest, cpu, (uintptr_t)handler);
	b->state->order = ECALL;
	left = b->state->left;
	guest->repeat = 1;
	guest->command = REQUESTS;
	CHECK(reaches(&b->state->left, left + 1) &&
	      b->state->run.reason == KVM_UCTX_EXIT_ECALL &&
	      b->state->run.pending == 1 << VECTOR, "ECALL ends KVM_UCTX_RUN");
	b->state->order = FLOAT;
	guest->answer = guest->request;
	runs(guest);
	left = b->state->left;
	guest->repeat = 1;
	guest->command = REQUESTS;
	CHECK(reaches(&b->state->left, left + 1) &&
	      b->state->run.reason == KVM_UCTX_EXIT_FAULT &&
	      b->state->run.cause == 2, "no floating point");
	b->state->order = SPIN;
	guest->answer = guest->request;
	runs(guest);
	guest->repeat = 1;
	guest->command = REQUESTS;
	reaches(&b->state->begun, b->state->begun + 1);
	kill_backend(b);
	CHECK(read(b->eventfd, &kicks, 8) == 8,
	      "a kick whose handler has died is eventfd's");
	check_guest(vm, b, "backend killed in its handler");

	start_backend(b, guest, cpu, (uintptr_t)handler);
	b->state->meanwhile = MAP_UNMAP;
	for (rounds = 0; rounds < 100 && b->state->done < 50; rounds++)
		if (!requests(guest, 200))
			break;
	CHECK(b->state->done >= 50, "memory comes and goes");
	b->state->meanwhile = 0;
	usleep(10000);
	b->state->done = 0;
	b->state->meanwhile = FORK;
	CHECK(reaches(&b->state->done, EIO) && requests(guest, 100),
	      "a child cannot run the handler");
	b->state->meanwhile = EXECVE;
	usleep(50000);
	check_guest(vm, b, "another program in the place of the backend");
	kill_backend(b);

	start_backend(b, guest, cpu, 0x1000);
	left = b->state->left;
	guest->repeat = 1;
	guest->command = REQUESTS;
	CHECK(reaches(&b->state->left, left + 1) &&
	      b->state->run.reason == KVM_UCTX_EXIT_FAULT &&
	      b->state->run.cause == 12 && b->state->run.pc == 0x1000,
	      "a handler that is not there");
	kill_backend(b);
	check_guest(vm, b, "bad utvec");
}

void spin(struct vm *vm, int vcpu, int cpu)
{
	uint32_t *code = (uint32_t *)vm->memory;
	int i;

	/* wfi becomes nop */
	for (i = 0; i < 256; i++)
		if (code[i] == 0x10500073)
			code[i] = 0x13;
	vm->vcpus[vcpu].cpu = cpu;
	start(&vm->vcpus[vcpu]);
	reaches(&vm->vcpus[vcpu].shared->rounds, 1);
}

void test_contexts(void)
{
	struct backend backend;
	struct vm vm, other;
	cpu_set_t all;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) <= 0) {
		printf("skip: KVM offers no user contexts\n");
		return;
	}
	/* This thread disturbs the guest that makes requests, and no other */
	pin(0);
	create_domain(&vm, 1);
	doorbell(&vm, &backend, DOORBELL);
	spin(&vm, 0, 0);

	test_where(&vm, &backend, KVM_DEV_UCTX_CPU_OWN, "the guest's own CPU", 0);
	test_where(&vm, &backend, 1, "an idle CPU", 1);
	test_long(&vm, &backend);
	create_domain(&other, 1);
	spin(&other, 0, 1);
	test_where(&vm, &backend, 1, "a CPU with another guest", 0);
	CHECK(runs(other.vcpus[0].shared) && !other.vcpus[0].shared->exceptions,
	      "which notices nothing");
	test_mistakes(&vm, &backend, 1);
	CHECK(!other.vcpus[0].shared->exceptions, "nor does it of mistakes");
	stop(&other.vcpus[0]);
	destroy_vm(&other);
	test_mistakes(&vm, &backend, KVM_DEV_UCTX_CPU_OWN);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);

	CPU_ZERO(&all);
	CPU_SET(0, &all);
	CPU_SET(1, &all);
	sched_setaffinity(0, sizeof(all), &all);
}
