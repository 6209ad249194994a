// SPDX-License-Identifier: GPL-2.0-only
/*
 * blkio make FILE BYTES
 * blkio DEVICE OPERATION SIZE REQUESTS
 * blkio DEVICE check OPERATION SIZE REQUESTS
 *
 * Makes requests of SIZE bytes to a disk, one after the other, past the page
 * cache, and checks every byte it reads. OPERATION is read, write, randread or
 * randwrite; `check` reads what the same words without it have written.
 *
 * Each word of 8 bytes of the disk holds its own offset, as `make` leaves it, or
 * that with the number of the last write to its block in the upper bits.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <linux/fs.h>

#define CHUNK		(1 << 20)
#define MAX_SIZE	(64 << 10)
#define NUMBER_SHIFT	40

static uint64_t *buffer;
/* Number of the last write to each block of the requests' size; 0: as made */
static uint32_t *written;
static unsigned long errors;

static _Noreturn void fatal(const char *what)
{
	fprintf(stderr, "blkio: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void fill(uint64_t offset, size_t size, uint64_t number)
{
	size_t i;

	for (i = 0; i < size / 8; i++)
		buffer[i] = (offset + i * 8) ^ number << NUMBER_SHIFT;
}

static void check(uint64_t offset, size_t size, uint64_t number)
{
	size_t i;

	for (i = 0; i < size / 8; i++) {
		if (buffer[i] == ((offset + i * 8) ^ number << NUMBER_SHIFT))
			continue;
		if (!errors++)
			fprintf(stderr, "blkio: %#llx at %#llx, write %llu\n",
				(unsigned long long)buffer[i],
				(unsigned long long)(offset + i * 8),
				(unsigned long long)number);
	}
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: blkio make FILE BYTES\n"
			"       blkio DEVICE [check] OPERATION SIZE REQUESTS\n");
	exit(2);
}

static int make(const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	uint64_t at;

	if (fd < 0)
		fatal(path);
	for (at = 0; at < bytes; at += CHUNK) {
		fill(at, CHUNK, 0);
		if (write(fd, buffer, CHUNK) != CHUNK)
			fatal(path);
	}

	return 0;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);

	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* Marsaglia's xorshift: the same offsets in each run */
static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;

	return state;
}

static int smaller(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void transfer(int fd, uint64_t block, size_t size, int writing,
		     uint64_t number)
{
	uint64_t offset = block * size;
	ssize_t done;

	done = writing ? pwrite(fd, buffer, size, offset) :
			 pread(fd, buffer, size, offset);
	if (done != (ssize_t)size)
		fatal(writing ? "write" : "read");
	if (!writing)
		check(offset, size, number);
}

struct job {
	int fd;
	int writing;
	int random;
	size_t size;
	uint64_t blocks;
	unsigned long requests;
};

static uint64_t block_of(const struct job *job, unsigned long i)
{
	return (job->random ? next_random() : i) % job->blocks;
}

static void measure(const struct job *job)
{
	uint32_t *times = malloc(job->requests * sizeof(*times));
	uint64_t block, begin, end, total = 0;
	unsigned long i;

	if (!times)
		fatal("memory");
	for (i = 0; i < job->requests; i++) {
		block = block_of(job, i);
		if (job->writing)
			fill(block * job->size, job->size, i + 1);
		begin = now();
		transfer(job->fd, block, job->size, job->writing, written[block]);
		end = now();
		if (job->writing)
			written[block] = i + 1;
		times[i] = end - begin;
		total += end - begin;
	}

	qsort(times, job->requests, sizeof(*times), smaller);
	printf("requests=%lu\ntime_us=%llu\niops=%llu\n", job->requests,
	       (unsigned long long)total / 1000,
	       (unsigned long long)(job->requests * 1000000000ULL / (total ? : 1)));
	printf("latency_p50_ns=%u\nlatency_p99_ns=%u\nlatency_max_ns=%u\n",
	       times[job->requests / 2], times[job->requests * 99 / 100],
	       times[job->requests - 1]);
}

static void read_back(const struct job *job)
{
	unsigned long i;
	uint64_t block;

	for (i = 0; i < job->requests; i++)
		written[block_of(job, i)] = i + 1;
	for (block = 0; block < job->blocks; block++)
		if (written[block])
			transfer(job->fd, block, job->size, 0, written[block]);
}

int main(int argc, char **argv)
{
	struct job job;
	uint64_t bytes;
	int checking;

	buffer = aligned_alloc(4096, CHUNK);
	if (!buffer)
		fatal("memory");
	if (argc == 4 && !strcmp(argv[1], "make"))
		return make(argv[2], strtoull(argv[3], NULL, 0));
	checking = argc == 6 && !strcmp(argv[2], "check");
	if (argc != 5 + checking)
		usage();
	job.fd = open(argv[1], O_RDWR | O_DIRECT);
	if (job.fd < 0 || ioctl(job.fd, BLKGETSIZE64, &bytes))
		fatal(argv[1]);
	argv += checking;
	job.random = !strncmp(argv[2], "rand", 4);
	job.writing = strstr(argv[2], "write") != NULL;
	job.size = strtoul(argv[3], NULL, 0);
	job.requests = strtoul(argv[4], NULL, 0);
	if (!job.size || job.size % 512 || job.size > MAX_SIZE) {
		fprintf(stderr, "blkio: a request has 512 to %u bytes, in steps of 512, not %s\n",
			MAX_SIZE, argv[3]);
		return 2;
	}
	if (!job.requests || bytes < job.size) {
		fprintf(stderr, "blkio: no request\n");
		return 2;
	}
	job.blocks = bytes / job.size;
	written = calloc(job.blocks, sizeof(*written));
	if (!written)
		fatal("memory");

	if (!checking)
		measure(&job);
	else if (job.writing)
		read_back(&job);
	/* Once, when everything has been checked */
	if (checking == job.writing)
		printf("errors=%lu\n", errors);

	return errors != 0;
}
