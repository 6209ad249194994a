// SPDX-License-Identifier: GPL-2.0-only
/*
 * A boost of a vCPU is over when KVM_RUN returns: neither the thread nor a child of it
 * has a priority that its user could not give it. No thread ever has another policy.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests.h"
#include "vm.h"

#define USER		1000
/* So many vCPUs want each hart */
#define VCPUS_PER_CPU	3
/* One return of KVM_RUN in so many makes a child */
#define RETURNS_PER_CHILD	64
/* How often all threads are looked at */
#define LOOK_US		10000

/* Fields of /proc/PID/stat; the second is the name, in brackets */
#define STAT_PRIORITY	18
#define STAT_POLICY	41

extern const char boost_guest_begin[], boost_guest_end[];

/* What the threads of one VM have seen; in memory that survives their process */
struct seen {
	unsigned long returns, children;
	unsigned long policies, priorities, of_children;
	unsigned long looks, of_threads;
	unsigned long ipis, exceptions;
	uint64_t boosts;
	int done;
};

static struct seen *seen;
static volatile int stops;

/* A number of /proc/.../stat; -1 if the thread is gone */
static long stat_field(const char *path, int field)
{
	char text[512], *at;
	int fd, n;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	at = strrchr(text, ')') + 2;
	for (n = 3; n < field; n++)
		at = strchr(at, ' ') + 1;
	return strtol(at, NULL, 10);
}

/* The priority by which the scheduler goes: 20 plus the nice value, below 0 if real-time */
static long effective_priority(void)
{
	return stat_field("/proc/thread-self/stat", STAT_PRIORITY);
}

static int is_ordinary(void)
{
	return sched_getscheduler(0) == SCHED_OTHER && effective_priority() == 20;
}

static int child_is_ordinary(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		fatal("fork");
	if (!child)
		_exit(!is_ordinary());
	if (waitpid(child, &status, 0) != child)
		fatal("wait for a child");
	return status == 0;
}

/* A vCPU may have a priority while it is in KVM_RUN, but nobody another policy. */
static void look_at_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	char path[64];

	if (!tasks)
		fatal("open /proc/self/task");
	while ((task = readdir(tasks))) {
		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", task->d_name);
		if (stat_field(path, STAT_POLICY) > SCHED_OTHER ||
		    (atoi(task->d_name) == getpid() && effective_priority() != 20))
			seen->of_threads++;
		seen->looks++;
	}
	closedir(tasks);
}

static void *vcpu_thread(void *argument)
{
	struct vcpu *vcpu = argument;
	unsigned long returns = 0;

	while (!stops) {
		int error = ioctl(vcpu->fd, KVM_RUN, 0) ? errno : 0;

		/* The priority first: to ask for the policy takes longer */
		if (effective_priority() != 20)
			__atomic_fetch_add(&seen->priorities, 1, __ATOMIC_RELAXED);
		if (sched_getscheduler(0) != SCHED_OTHER)
			__atomic_fetch_add(&seen->policies, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&seen->returns, 1, __ATOMIC_RELAXED);
		if (++returns % RETURNS_PER_CHILD == 0) {
			__atomic_fetch_add(&seen->children, 1, __ATOMIC_RELAXED);
			if (!child_is_ordinary())
				__atomic_fetch_add(&seen->of_children, 1, __ATOMIC_RELAXED);
		}
		if (error && error != EINTR && error != EAGAIN)
			fatal("KVM_RUN");
	}
	return NULL;
}

/* A figure that KVM has of a vCPU */
static uint64_t statistic(struct vcpu *vcpu, const char *name)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *desc;
	uint64_t value = 0;
	unsigned int i;
	int fd, size;

	fd = ioctl(vcpu->fd, KVM_GET_STATS_FD, 0);
	if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header))
		fatal("open KVM's statistics");
	size = sizeof(*desc) + header.name_size;
	desc = malloc(size);
	for (i = 0; desc && i < header.num_desc; i++) {
		if (pread(fd, desc, size, header.desc_offset + i * size) != size)
			fatal("read KVM's statistics");
		if (!strcmp(desc->name, name) &&
		    pread(fd, &value, 8, header.data_offset + desc->offset) != 8)
			fatal("read a statistic");
	}
	free(desc);
	close(fd);
	return value;
}

static void on_sigusr1(int signal)
{
}

/* The program of a user who may not have real-time threads */
static void run_guest(int seconds)
{
	struct rlimit none = { 0, 0 };
	struct sigaction usr1 = { .sa_handler = on_sigusr1, .sa_flags = SA_RESTART };
	int n = sysconf(_SC_NPROCESSORS_ONLN) * VCPUS_PER_CPU;
	struct sched_param fifo = { .sched_priority = 1 };
	struct timespec now, end;
	struct vm vm;
	int i;

	if (setrlimit(RLIMIT_RTPRIO, &none) || setgid(USER) || setuid(USER))
		fatal("become a user");
	if (!sched_setscheduler(0, SCHED_FIFO, &fifo))
		fatal("be forbidden to be a real-time thread");
	sigaction(SIGUSR1, &usr1, NULL);

	if (n > MAX_VCPUS)
		n = MAX_VCPUS;
	create_vm(&vm, n);
	memcpy(vm.memory, boost_guest_begin, boost_guest_end - boost_guest_begin);
	for (i = 0; i < n; i++) {
		vm.vcpus[i].shared->argument = ((1ULL << n) - 1) & ~(1ULL << i);
		if (pthread_create(&vm.vcpus[i].thread, NULL, vcpu_thread, &vm.vcpus[i]))
			fatal("start a thread");
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		usleep(LOOK_US);
		look_at_threads();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	stops = 1;
	for (i = 0; i < n; i++) {
		vm.vcpus[i].run->immediate_exit = 1;
		pthread_kill(vm.vcpus[i].thread, SIGUSR1);
		pthread_join(vm.vcpus[i].thread, NULL);
		seen->ipis += vm.vcpus[i].shared->soft;
		seen->exceptions += vm.vcpus[i].shared->exceptions;
		seen->boosts += statistic(&vm.vcpus[i], "boosts");
	}
	destroy_vm(&vm);
	seen->done = 1;
}

static void boost(int seconds)
{
	int status;
	pid_t child;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		fatal("share memory");
	fflush(stdout);
	child = fork();
	if (!child) {
		run_guest(seconds);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		fatal("run a guest in another process");

	CHECK(status == 0 && seen->done && !seen->exceptions && seen->ipis && seen->boosts,
	      "a user's vCPUs are boosted: %lu times, with %lu IPIs",
	      (unsigned long)seen->boosts, seen->ipis);
	CHECK(seen->returns && !seen->policies && !seen->priorities,
	      "KVM_RUN returns without a priority: of %lu in %d s, %lu with a policy, %lu with a priority",
	      seen->returns, seconds, seen->policies, seen->priorities);
	CHECK(seen->children && !seen->of_children, "no child inherits one: of %lu, %lu",
	      seen->children, seen->of_children);
	CHECK(seen->looks && !seen->of_threads,
	      "nor any thread another policy: of %lu, %lu", seen->looks, seen->of_threads);
	munmap(seen, sizeof(*seen));
}

void test_boost(void)
{
	boost(1);
}

void test_boost_long(void)
{
	boost(60);
}

void test_boost_very_long(void)
{
	boost(1800);
}
