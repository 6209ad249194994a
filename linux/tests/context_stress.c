// SPDX-License-Identifier: GPL-2.0-only
/*
 * Numbered requests of guests to processes with user contexts, while vCPUs and
 * processes move, are interrupted, die and come again.
 */

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "contexts.h"
#include "tests.h"
#include "vm.h"

/* Of all vCPUs together; CONTEXT_REQUESTS in the environment says another number */
#define DEFAULT_REQUESTS	10000
/* Longest time without an answer */
#define PATIENCE_US	2000000
#define PAUSE_US	50

/* Never 0; CONTEXT_SEED in the environment says another number */
static uint32_t random_state = 2463534242;

static uint32_t random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;

	return random_state;
}

static void move(pid_t task)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(random_number() % 2, &set);
	sched_setaffinity(task, sizeof(set), &set);
}

static void begin(struct vm *vm, struct backend *backend, int vcpu)
{
	static const uint64_t where[] = {
		KVM_DEV_UCTX_CPU_OWN, KVM_DEV_UCTX_CPU_THREAD, 0, 1
	};

	spawn_backend(backend, vm->vcpus[vcpu].shared, where[random_number() % 4],
		      (uintptr_t)handler);
}

/* Something that happens to a guest or its backend */
static int disturb(struct vm *vm, struct backend *backend, int vcpu)
{
	switch (random_number() % 64) {
	case 0 ... 23:
		move(vm->vcpus[vcpu].tid);
		return 0;
	case 24 ... 43:
		move(backend->process);
		return 0;
	case 44 ... 62:
		kill(backend->process, SIGUSR1);
		return 0;
	default:
		kill_backend(backend);
		begin(vm, backend, vcpu);
		return 1;
	}
}

static void stress(int nr_vcpus, uint64_t requests)
{
	struct backend backends[MAX_VCPUS];
	uint64_t each = requests / nr_vcpus;
	uint64_t begun, last, sum, before = 0;
	int i, done = 0, disturbed, deaths = 0;
	struct vm vm;

	create_domain(&vm, nr_vcpus);
	for (i = 0; i < nr_vcpus; i++) {
		volatile struct shared *guest = vm.vcpus[i].shared;

		doorbell(&vm, &backends[i], DOORBELL + 8 * i);
		begin(&vm, &backends[i], i);
		guest->argument = backends[i].address;
		guest->repeat = each;
		guest->command = REQUESTS;
		spin(&vm, i, i % 2);
	}
	come_first(1);
	begun = last = now_us();
	for (disturbed = 0; now_us() - last < PATIENCE_US; disturbed++) {
		usleep(PAUSE_US);
		for (i = done = 0, sum = 0; i < nr_vcpus; i++) {
			sum += vm.vcpus[i].shared->answer;
			done += vm.vcpus[i].shared->answer == each;
		}
		if (done == nr_vcpus)
			break;
		if (sum != before)
			last = now_us();
		before = sum;
		i = random_number() % nr_vcpus;
		deaths += disturb(&vm, &backends[i], i);
	}
	come_first(0);
	CHECK(done == nr_vcpus, "%d vCPUs, %lu requests, %d backends killed: all answered",
	      nr_vcpus, (unsigned long)each * nr_vcpus, deaths);
	printf("     %d disturbances in %lu us\n", disturbed, now_us() - begun);
	for (i = 0; i < nr_vcpus; i++) {
		if (vm.vcpus[i].shared->answer != each)
			printf("     vCPU %d: request %lu, answer %lu\n", i,
			       vm.vcpus[i].shared->request,
			       vm.vcpus[i].shared->answer);
		kill_backend(&backends[i]);
		stop(&vm.vcpus[i]);
	}
	destroy_vm(&vm);
}

void test_context_stress(void)
{
	const char *number = getenv("CONTEXT_REQUESTS");
	const char *seed = getenv("CONTEXT_SEED");
	uint64_t requests = number ? strtoul(number, NULL, 0) : DEFAULT_REQUESTS;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) <= 0) {
		printf("skip: KVM offers no user contexts\n");
		return;
	}
	if (seed)
		random_state = strtoul(seed, NULL, 0) * 2654435761u | 1;
	stress(2, requests);
	stress(4, requests);
	stress(8, requests);
}
