// SPDX-License-Identifier: GPL-2.0-only
/*
 * remap THREADS ROUNDS KIB
 *
 * Threads of one process that each map memory, copy KIB of data to it, search
 * there, and unmap it again, ROUNDS times: every unmapping makes the kernel
 * reach all CPUs that run a thread of the process. In the manner of ebizzy with
 * mmap(), but the work is fixed, not the time. Prints the time in microseconds.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static unsigned long rounds;
static size_t words;
static uint64_t *data;

static _Noreturn void fatal(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);

	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

static int before(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static void *work(void *seed)
{
	unsigned int state = (uintptr_t)seed;
	unsigned long round;
	uint64_t *copy, key;

	for (round = 0; round < rounds; round++) {
		copy = mmap(NULL, words * sizeof(*copy), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			fatal("remap: mmap");
		memcpy(copy, data, words * sizeof(*copy));
		key = 3 * (rand_r(&state) % words);
		if (!bsearch(&key, copy, words, sizeof(*copy), before)) {
			fprintf(stderr, "remap: %lu is not in the copy\n",
				(unsigned long)key);
			exit(1);
		}
		if (munmap(copy, words * sizeof(*copy)))
			fatal("remap: munmap");
	}

	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc == 4 ? strtoul(argv[1], NULL, 0) : 0;
	pthread_t *thread;
	uint64_t begin;
	size_t i;

	if (argc == 4) {
		rounds = strtoul(argv[2], NULL, 0);
		words = strtoul(argv[3], NULL, 0) * 1024 / sizeof(*data);
	}
	if (!threads || threads > 256 || !rounds || !words) {
		fprintf(stderr, "usage: remap THREADS ROUNDS KIB\n");
		return 2;
	}

	data = malloc(words * sizeof(*data));
	thread = calloc(threads, sizeof(*thread));
	if (!data || !thread)
		fatal("remap: malloc");
	for (i = 0; i < words; i++)
		data[i] = 3 * i;

	begin = now_us();
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(i + 1)))
			fatal("remap: pthread_create");
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%llu\n", (unsigned long long)(now_us() - begin));

	return 0;
}
