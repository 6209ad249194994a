// SPDX-License-Identifier: GPL-2.0-only
/*
 * hostwork WORK COUNT [PID [CPU]]
 *
 * Does COUNT times what a host does that concerns all its CPUs, or the memory of
 * the virtual machine of process PID, and prints how long it took:
 *
 *	count=N
 *	avg_us=N
 *	max_us=N
 *
 * WORK is
 *	shootdown	a range of the address space of PID loses its TLB entries
 *	collapse	pages of its largest mapping, the RAM of the guest, move
 *			into huge ones: KVM unmaps them
 *	rcu		a grace period (the end of a module: PID is its name)
 *	expedited	an expedited grace period (the end of a mount)
 *	reclaim		page cache is dropped and memory compacted
 *	hotplug		CPU goes off and on again (PID is its number)
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define HUGE		(2UL << 20)

static const char *subject;
static int process = -1;
static uint64_t start, end;	/* of the largest mapping */
static unsigned long round_number;

static _Noreturn void fatal(const char *what)
{
	fprintf(stderr, "hostwork: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fatal(path);
	close(fd);
}

static void find_process(void)
{
	unsigned long long from, to;
	char line[512];
	FILE *maps;

	snprintf(line, sizeof(line), "/proc/%s/maps", subject);
	maps = fopen(line, "r");
	if (!maps)
		fatal(line);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &from, &to) == 2 &&
		    to - from > end - start) {
			start = from;
			end = to;
		}
	}
	fclose(maps);
	process = syscall(SYS_pidfd_open, atoi(subject), 0);
	if (process < 0)
		fatal("pidfd_open");
}

static void advise(uint64_t from, uint64_t size, int advice)
{
	struct iovec range = { (void *)(uintptr_t)from, size };

	if (syscall(SYS_process_madvise, process, &range, 1, advice, 0) < 0)
		fatal("process_madvise");
}

/* Other pages each time: the entries of the last ones are gone. */
static uint64_t next_range(void)
{
	uint64_t first = (start + HUGE - 1) & ~(HUGE - 1);

	return first + round_number * HUGE % ((end - first) & ~(HUGE - 1));
}

static void shootdown(void)
{
	advise(next_range(), HUGE, MADV_COLD);
}

static void collapse(void)
{
	advise(next_range(), HUGE, MADV_COLLAPSE);
}

static void rcu(void)
{
	if (syscall(SYS_delete_module, subject, O_NONBLOCK) < 0)
		fatal("delete_module");
}

static void load(void)
{
	char command[200];

	snprintf(command, sizeof(command), "modprobe %s", subject);
	if (system(command))
		fatal(command);
}

static void expedited(void)
{
	if (umount("/tmp") < 0)
		fatal("umount");
}

static void mount_again(void)
{
	if (mount("hostwork", "/tmp", "tmpfs", 0, NULL) < 0)
		fatal("mount");
}

static void reclaim(void)
{
	write_file("/proc/sys/vm/drop_caches", "3");
	write_file("/proc/sys/vm/compact_memory", "1");
}

static void hotplug(void)
{
	char path[100];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%s/online",
		 subject);
	write_file(path, "0");
	write_file(path, "1");
}

static void nothing(void)
{
}

#define NR_WORKS	6

static const struct {
	const char *name;
	void (*once)(void);
	void (*prepare)(void);
	void (*work)(void);
} works[NR_WORKS] = {
	{ "shootdown", find_process, nothing, shootdown },
	{ "collapse", find_process, nothing, collapse },
	{ "rcu", nothing, load, rcu },
	{ "expedited", nothing, mount_again, expedited },
	{ "reclaim", nothing, nothing, reclaim },
	{ "hotplug", nothing, nothing, hotplug },
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t begin, time, sum = 0, max = 0;
	unsigned long count;
	unsigned int i;

	if (argc < 3) {
		fprintf(stderr, "usage: hostwork WORK COUNT [SUBJECT]\n");
		return 2;
	}
	count = strtoul(argv[2], NULL, 10);
	subject = argc > 3 ? argv[3] : "";
	for (i = 0; i < NR_WORKS; i++)
		if (!strcmp(works[i].name, argv[1]))
			break;
	if (i == NR_WORKS || !count) {
		fprintf(stderr, "hostwork: there is no work %s\n", argv[1]);
		return 2;
	}
	works[i].once();
	for (round_number = 0; round_number < count; round_number++) {
		works[i].prepare();
		begin = now();
		works[i].work();
		time = now() - begin;
		sum += time;
		if (time > max)
			max = time;
	}
	printf("count=%lu\navg_us=%llu\nmax_us=%llu\n", count,
	       (unsigned long long)(sum / count / 1000),
	       (unsigned long long)((max + 999) / 1000));
	return 0;
}
