// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guests and processes with user contexts that mean harm, and a host that takes
 * CPUs away from them.
 */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../include/uapi/linux/kvm_uer.h"
#include "../include/uapi/linux/kvm_vei.h"
#include "contexts.h"
#include "tests.h"
#include "vm.h"

/* Cycles that a handler may take from a guest unless user space says otherwise */
#define BUDGET		20000
/*
 * Cycles around it: to the handler, to KVM when its budget is used up, the
 * handing over, and to the guest
 */
#define AROUND		10000
#define TICK_US		4000
/* Events that KVM handles at a time */
#define EACH_INTERRUPT	32
#define CYCLES_PER_TICK	100

/*
 * Kicks until the handler does not answer. Has it ended by this fault, with this
 * address?
 */
static int faults(struct backend *b, volatile struct shared *guest, uint64_t cause,
		  uint64_t value)
{
	uint64_t left = b->state->left;
	int i, wait, found;

	for (i = 0; i < 200 && b->state->left == left; i++) {
		kick(guest);
		for (wait = 0; wait < 1000 && b->state->left == left && guest->command; wait++)
			usleep(100);
	}
	found = b->state->left == left + 1 &&
		b->state->run.reason == KVM_UCTX_EXIT_FAULT &&
		b->state->run.cause == cause && b->state->run.value == value;
	if (!found)
		printf("     left %lu, cause %llu, pc %llx, value %llx\n",
		       b->state->left - left, b->state->run.cause,
		       b->state->run.pc, b->state->run.value);
	/* Nobody else answers */
	guest->answer = guest->request;
	idle(guest);

	return found;
}

static void test_addresses(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	uint64_t own;

	start_backend(b, guest, cpu, (uintptr_t)handler);
	own = b->state->address;
	b->state->order = TOUCH;
	b->state->address = 0x1000;
	CHECK(faults(b, guest, 15, 0x1000), "a stack that is not mapped");
	b->state->address = -4096;
	CHECK(faults(b, guest, 15, -4096), "a stack of the kernel's");

	b->state->address = own;
	b->state->order = STACK;
	CHECK(requests(guest, 100), "a stack of its own");
	b->state->garbage = 0x1000;
	b->state->other_cpu = cpu == 1 ? 0 : 1;
	b->state->meanwhile = OVERWRITE;
	CHECK(faults(b, guest, 12, 0x1000), "a return address that another thread writes");
	b->state->garbage = -4096;
	CHECK(faults(b, guest, 12, -4096), "one of the kernel's");
	b->state->meanwhile = 0;
	b->state->order = SCRIBBLE;
	CHECK(requests(guest, 1000), "registers of user mode overwritten");
	b->state->order = 0;
	CHECK(requests(guest, 1000), "and the next handler has its own");
	kill_backend(b);
	check_guest(vm, b, "bad addresses");
}

static void test_code(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	uint64_t left, unanswered = 0;
	int i, wait;

	start_backend(b, guest, cpu, COPY);
	b->state->order = SPIN;
	left = b->state->left;
	kick(guest);
	reaches(&b->state->begun, 1);
	b->state->meanwhile = UNMAP;
	CHECK(reaches(&b->state->left, left + 1) && b->state->done == 1 &&
	      b->state->run.reason == KVM_UCTX_EXIT_FAULT &&
	      b->state->run.cause == 12 &&
	      b->state->run.pc - b->state->address < 4096,
	      "a handler whose code is unmapped while it runs");
	guest->answer = guest->request;
	kill_backend(b);
	check_guest(vm, b, "code unmapped");

	start_backend(b, guest, cpu, COPY);
	b->state->other_cpu = cpu == 1 ? 0 : 1;
	b->state->meanwhile = PROTECT;
	for (i = 0; i < 20000 && (b->state->done < 200 || i < 500); i++) {
		left = b->state->left;
		kick(guest);
		for (wait = 0; wait < 1000 && guest->command; wait++) {
			if (b->state->left != left)
				guest->answer = guest->request;
			usleep(20);
		}
		unanswered += guest->command != 0;
	}
	printf("     %d requests, %lu handlers failed\n", i, b->state->left);
	CHECK(b->state->done >= 200 && !unanswered,
	      "code that comes and goes: the handler answers or fails");
	b->state->meanwhile = 0;
	usleep(10000);
	CHECK(requests(guest, 1000), "code that stays: all are answered");
	kill_backend(b);
	check_guest(vm, b, "code that comes and goes");
}

static int attach(pid_t process)
{
	int status;

	return !ptrace(PTRACE_ATTACH, process, 0, 0) &&
	       waitpid(process, &status, 0) == process && WIFSTOPPED(status);
}

static void test_debugger(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	struct iovec io;
	long regs[64];
	int i, stopped = 0;
	uint64_t last;

	start_backend(b, guest, cpu, (uintptr_t)handler);
	b->state->order = SPIN;
	kick(guest);
	reaches(&b->state->begun, 1);
	usleep(1000);
	io.iov_base = regs;
	io.iov_len = sizeof(regs);
	CHECK(attach(b->process) &&
	      !ptrace(PTRACE_GETREGSET, b->process, NT_PRSTATUS, &io) &&
	      !ptrace(PTRACE_DETACH, b->process, 0, 0),
	      "a debugger attaches to a process in its handler");
	b->state->order = 0;
	CHECK(reaches(&guest->answer, guest->request) && b->state->begun == 1,
	      "which goes on where it was");
	idle(guest);

	last = guest->request + 20000;
	guest->repeat = 20000;
	guest->command = REQUESTS;
	for (i = 0; i < 50; i++) {
		if (!attach(b->process))
			break;
		stopped++;
		ptrace(PTRACE_DETACH, b->process, 0, 0);
		usleep(100);
	}
	for (i = 0; i < 20 && !reaches(&guest->answer, last); i++)
		;
	CHECK(stopped == 50 && guest->answer == last,
	      "and again while requests come: all are answered");
	idle(guest);
	kill_backend(b);
	check_guest(vm, b, "debugged");
}

static void test_children(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	pid_t clone;
	int i;

	start_backend(b, guest, cpu, (uintptr_t)handler);
	b->state->meanwhile = VFORK;
	for (i = 0; i < 200 && b->state->done < 20; i++)
		if (!requests(guest, 200))
			break;
	CHECK(b->state->done >= 20 && requests(guest, 200), "vfork() beside the handler");
	b->state->meanwhile = 0;
	usleep(10000);
	b->state->done = 0;
	b->state->meanwhile = CLONE;
	for (i = 0; i < 1000 && !b->state->done; i++)
		usleep(1000);
	clone = b->state->done;
	CHECK(clone > 0 && requests(guest, 1000), "a process with the same memory waits, too");
	kill(b->process, SIGKILL);
	waitpid(b->process, NULL, 0);
	CHECK(requests(guest, 1000), "and goes on when the first has died");
	kill(clone, SIGKILL);
	usleep(50000);
	munmap((void *)b->state, sizeof(*b->state));
	check_guest(vm, b, "both died");
}

/*
 * How long is a guest away that is interrupted by another one's handlers, none of
 * which ends within its budget?
 */
static void test_gap(struct vm *vm, struct backend *b, struct vm *other)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	volatile struct shared *victim = other->vcpus[0].shared;
	uint64_t alone, disturbed;
	struct kvm_uctx_stats stats;
	int answered;

	victim->repeat = 1;
	victim->command = GAPS;
	usleep(500000);
	victim->gap = 0;
	usleep(500000);
	alone = victim->gap * CYCLES_PER_TICK;

	/* The thread is elsewhere: it takes nothing from the victim */
	backend_cpu = 0;
	start_backend(b, guest, 1, (uintptr_t)handler);
	b->state->order = LONG;
	usleep(100000);
	victim->gap = 0;
	answered = requests(guest, 500);
	disturbed = victim->gap * CYCLES_PER_TICK;
	victim->repeat = 0;
	idle(victim);
	stats = backend_stats(b);
	kill_backend(b);
	backend_cpu = 1;
	printf("     longest gap: alone %lu cycles, interrupted %lu, %llu handed over\n",
	       alone, disturbed, stats.handed);
	CHECK(answered && stats.handed > 100, "handlers without end, again and again");
	CHECK(disturbed <= alone + BUDGET + AROUND,
	      "take from another guest what the budget says at a time");
}

/* How often a guest looks at the time in half a second */
static uint64_t looks(volatile struct shared *victim)
{
	uint64_t before = victim->looks, start = now_us();

	usleep(500000);
	return (victim->looks - before) * 500000 / (now_us() - start);
}

/*
 * What is left to a guest whose CPU a guest of somebody else floods with kicks, for
 * handlers that nearly use up their budget?
 */
static void test_share(struct vm *vm, struct backend *b, struct vm *other)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	volatile struct shared *victim = other->vcpus[0].shared;
	uint64_t alone, flooded, begun;

	victim->repeat = 1;
	victim->command = GAPS;
	usleep(100000);
	alone = looks(victim);

	backend_cpu = 0;
	start_backend(b, guest, 1, (uintptr_t)handler);
	b->state->order = BUSY;
	guest->argument = DOORBELL;
	guest->repeat = -1ULL >> 1;
	guest->command = KICKS;
	usleep(100000);
	begun = b->state->begun;
	flooded = looks(victim);
	begun = b->state->begun - begun;
	guest->repeat = 0;
	victim->repeat = 0;
	idle(guest);
	idle(victim);
	kill_backend(b);
	backend_cpu = 1;
	printf("     alone %lu, flooded %lu: %lu %%; %lu handlers\n", alone, flooded,
	       100 * flooded / alone, begun);
	CHECK(begun > 5000, "kicks without end, and handlers for them");
	CHECK(100 * flooded > 40 * alone, "leave another guest its share of the CPU");
}

/* Registers of a guest that handlers interrupt, of which some end elsewhere */
static void test_registers(struct vm *vm, struct backend *b, struct vm *other)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	volatile struct shared *victim = other->vcpus[0].shared;
	struct kvm_uctx_stats stats;
	int answered;

	victim->sie = 0;
	victim->changed = victim->x[0] = 0;
	start_backend(b, guest, 1, (uintptr_t)handler);
	victim->repeat = 1;
	victim->command = REGISTERS;
	answered = requests(guest, 5000);
	b->state->order = SCRIBBLE;
	answered &= requests(guest, 5000);
	b->state->order = LONG;
	answered &= requests(guest, 100);
	stats = backend_stats(b);
	CHECK(answered && stats.handed > 10 && b->state->begun > 5000,
	      "a guest with numbers in all registers is interrupted");
	printf("     looked %lu times, %lu found changed\n", victim->x[0],
	       victim->changed);
	CHECK(victim->x[0] > 1000 && !victim->changed && !victim->exceptions,
	      "and finds them unchanged");
	CHECK(!b->state->floats_changed, "so does the handler's thread");
	victim->repeat = 0;
	idle(victim);
	kill_backend(b);
}

/* Interrupts of doorbells so far */
static unsigned long events(void)
{
	unsigned long total = 0;
	char line[512], *word;
	FILE *file = fopen("/proc/interrupts", "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "kvm-event"))
			continue;
		word = strtok(strchr(line, ':') + 1, " ");
		for (; word && *word >= '0' && *word <= '9'; word = strtok(NULL, " "))
			total += strtoul(word, NULL, 10);
	}
	if (file)
		fclose(file);
	return total;
}

static void move(pid_t task, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(task, sizeof(set), &set);
}

/* Two vCPUs kick without end, and move: the host gets to its own, and misses none. */
static void test_flood_of_kicks(void)
{
	const uint64_t kicks = 3000000;
	volatile struct shared *guest;
	unsigned long interrupts;
	struct backend b;
	uint64_t count, before, slept, longest = 0, heard = 0;
	struct vm vm;
	int i, v, moves = 0, left = 2;

	create_domain(&vm, 2);
	doorbell(&vm, &b, DOORBELL);
	for (v = 0; v < 2; v++) {
		guest = vm.vcpus[v].shared;
		guest->argument = DOORBELL;
		guest->repeat = kicks;
		guest->command = KICKS;
	}
	come_first(1);
	interrupts = events();
	spin(&vm, 0, 0);
	spin(&vm, 1, 1);
	before = now_us();
	for (i = 0; i < 100000 && left; i++) {
		slept = now_us();
		usleep(100);
		slept = now_us() - slept;
		longest = slept > longest ? slept : longest;
		if (read(b.eventfd, &count, 8) == 8)
			heard += count;
		move(vm.vcpus[i % 2].tid, (i / 2) % 2);
		moves++;
		for (v = left = 0; v < 2; v++)
			left += vm.vcpus[v].shared->command != 0;
	}
	interrupts = events() - interrupts;
	come_first(0);
	printf("     %lu interrupts, %lu heard, %d moves, %lu us, 100 us took %lu at most\n",
	       interrupts, heard, moves, now_us() - before, longest);
	CHECK(!left && moves > 100, "two vCPUs kick %lu times and move",
	      (unsigned long)kicks);
	CHECK(longest < 2 * TICK_US, "a thread of the host comes in time");
	CHECK(heard && heard <= EACH_INTERRUPT * interrupts,
	      "and each interrupt tells it of a few");
	for (i = 0; i < 20; i++) {
		while (read(b.eventfd, &count, 8) == 8)
			;
		move(vm.vcpus[0].tid, i % 2);
		vm.vcpus[0].shared->repeat = 1;
		vm.vcpus[0].shared->command = KICKS;
		idle(vm.vcpus[0].shared);
		usleep(5000);
		if (read(b.eventfd, &count, 8) != 8)
			break;
	}
	CHECK(i == 20, "each single kick after that is heard");
	for (v = 0; v < 2; v++)
		stop(&vm.vcpus[v]);
	destroy_vm(&vm);
}

/* Every access that a page of doorbells and a shadow do not answer exits. */
static void test_wild_accesses(void)
{
	static const uint64_t steps = 4096 / 8;
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_VEI };
	struct kvm_vei_shadow shadow = {
		.loads = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
			   -1, -1 },
	};
	struct kvm_device_attr a = {
		.group = KVM_DEV_VEI_GRP_SHADOW,
		.attr = DOORBELL,
		.addr = (uintptr_t)&shadow,
	};
	uint64_t count = 0, changed = 0, offset = 256;
	volatile struct shared *guest;
	struct backend b;
	uint64_t *page;
	struct vm vm;
	int i;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
	for (i = 0; i < 512; i++)
		page[i] = ~0ULL;
	shadow.page = (uintptr_t)page;
	create_domain(&vm, 1);
	if (ioctl(vm.fd, KVM_CREATE_DEVICE, &cd) ||
	    ioctl(cd.fd, KVM_SET_DEVICE_ATTR, &a))
		fatal("set a shadow");
	a.group = KVM_DEV_VEI_GRP_CLEAR;
	a.attr = DOORBELL + 128;
	a.addr = (uintptr_t)&offset;
	if (ioctl(cd.fd, KVM_SET_DEVICE_ATTR, &a))
		fatal("set a doorbell that clears");
	doorbell(&vm, &b, DOORBELL);
	guest = vm.vcpus[0].shared;
	vm.vcpus[0].wild = 1;
	guest->argument = DOORBELL;
	guest->repeat = 1;
	guest->command = ACCESSES;
	spin(&vm, 0, 0);
	idle(guest);
	usleep(20000);
	for (i = 0; i < 512; i++)
		changed += page[i] != ~0ULL;
	printf("     %lu loads, %lu stores, %lu refused, %lu words of the shadow changed\n",
	       vm.vcpus[0].loads, vm.vcpus[0].stores, vm.vcpus[0].refused, changed);
	CHECK(!guest->command && !guest->exceptions, "accesses of all kinds: the guest goes on");
	CHECK(!vm.vcpus[0].loads, "the shadow answers all loads");
	/* All but the words that ring and that clear */
	CHECK(vm.vcpus[0].stores == steps * 7 - 2, "stores beside doorbells exit");
	CHECK(changed == 1 && page[32] == ~0ULL << 32, "one clears its bits, no other changes any");
	CHECK(read(b.eventfd, &count, 8) == 8 && count == 1, "and one rings");
	CHECK(vm.vcpus[0].refused == 5, "KVM refuses the rest");
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	close(cd.fd);
	munmap(page, 4096);
}

void set_online(int cpu, const char *value)
{
	char name[64];
	int file;

	snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%d/online", cpu);
	file = open(name, O_WRONLY);
	if (file < 0 || write(file, value, 1) != 1 || close(file))
		fatal("switch a CPU");
}

/* The CPU that a context names goes and comes back while requests are made. */
static void test_unplug(struct vm *vm, struct backend *b, uint64_t cpu)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	uint64_t last;
	int i, n;

	start_backend(b, guest, cpu, (uintptr_t)handler);
	last = guest->request + 100000;
	guest->argument = DOORBELL;
	guest->repeat = 100000;
	guest->command = REQUESTS;
	for (n = 0; n < 10; n++) {
		set_online(1, "0");
		usleep(3000);
		set_online(1, "1");
		move(b->process, 1);
		usleep(3000);
	}
	for (i = 0; i < 30 && guest->answer != last; i++)
		reaches(&guest->answer, last);
	CHECK(guest->answer == last, "a CPU goes and comes ten times: all are answered");
	if (guest->answer != last)
		printf("     request %lu, answer %lu\n", guest->request, guest->answer);
	idle(guest);
	kill_backend(b);
	check_guest(vm, b, "unplugged");
}

/* There is no descriptor for a device: it is as if nobody had asked for it. */
static void test_no_descriptor(void)
{
	static const uint32_t types[] = {
		KVM_DEV_TYPE_RISCV_UCTX, KVM_DEV_TYPE_RISCV_VEI, KVM_DEV_TYPE_RISCV_UER,
	};
	struct kvm_create_device cd = {};
	struct rlimit limit, none;
	unsigned int i, refused = 0, created = 0;
	struct vm vm;

	create_vm(&vm, 1);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = dup(0);
	close(none.rlim_cur);
	for (i = 0; i < 3; i++) {
		cd.type = types[i];
		setrlimit(RLIMIT_NOFILE, &none);
		refused += ioctl(vm.fd, KVM_CREATE_DEVICE, &cd) && errno == EMFILE;
		setrlimit(RLIMIT_NOFILE, &limit);
		if (ioctl(vm.fd, KVM_CREATE_DEVICE, &cd))
			continue;
		created++;
		close(cd.fd);
	}
	destroy_vm(&vm);
	CHECK(refused == 3 && created == 3, "devices without a descriptor for them");
}

void test_context_hostile(void)
{
	static const uint64_t where[] = { 1, KVM_DEV_UCTX_CPU_OWN };
	struct backend backend;
	struct vm vm, other;
	cpu_set_t all;
	int i;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) <= 0) {
		printf("skip: KVM offers no user contexts\n");
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	pin(0);
	test_no_descriptor();
	test_flood_of_kicks();
	test_wild_accesses();
	create_domain(&vm, 1);
	doorbell(&vm, &backend, DOORBELL);
	spin(&vm, 0, 0);
	create_domain(&other, 1);
	spin(&other, 0, 1);
	for (i = 0; i < 2; i++) {
		printf("--- %s\n", i ? "the guest's own CPU" : "a CPU with another guest");
		test_addresses(&vm, &backend, where[i]);
		test_code(&vm, &backend, where[i]);
		test_debugger(&vm, &backend, where[i]);
		test_children(&vm, &backend, where[i]);
	}
	test_gap(&vm, &backend, &other);
	test_share(&vm, &backend, &other);
	test_registers(&vm, &backend, &other);
	CHECK(!other.vcpus[0].shared->exceptions, "the other guest notices nothing");
	test_unplug(&vm, &backend, 1);
	test_unplug(&vm, &backend, KVM_DEV_UCTX_CPU_THREAD);
	stop(&other.vcpus[0]);
	destroy_vm(&other);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	sched_setaffinity(0, sizeof(all), &all);
}
