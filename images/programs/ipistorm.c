// SPDX-License-Identifier: GPL-2.0-only
/*
 * ipistorm MILLISECONDS
 *
 * A thread on each CPU that makes the kernel send IPIs to all others, one after
 * the other, all the time: membarrier() reaches each CPU that runs a thread of
 * the process. Prints how often.
 */

#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_ulong total;
static uint64_t end_ms;

static uint64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);

	return time.tv_sec * 1000ULL + time.tv_nsec / 1000000;
}

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static void *storm(void *cpu)
{
	unsigned long count = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((uintptr_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("ipistorm: sched_setaffinity");
		exit(1);
	}
	while (now_ms() < end_ms) {
		if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
			perror("ipistorm: membarrier");
			exit(1);
		}
		count++;
	}
	atomic_fetch_add(&total, count);

	return NULL;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned long ms = argc == 2 ? strtoul(argv[1], NULL, 0) : 0;
	pthread_t thread[256];
	uintptr_t i;

	if (!ms || cpus > 256) {
		fprintf(stderr, "usage: ipistorm MILLISECONDS (up to 256 CPUs)\n");
		return 2;
	}
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {
		perror("ipistorm: membarrier");
		return 1;
	}
	end_ms = now_ms() + ms;
	for (i = 0; i < (uintptr_t)cpus; i++)
		if (pthread_create(&thread[i], NULL, storm, (void *)i)) {
			perror("ipistorm: pthread_create");
			return 1;
		}
	for (i = 0; i < (uintptr_t)cpus; i++)
		pthread_join(thread[i], NULL);
	printf("%lu\n", (unsigned long)total);

	return 0;
}
