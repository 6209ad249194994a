// SPDX-License-Identifier: GPL-2.0-only
/* Grants: who may write ugenvsei in user mode, and until when */

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests.h"
#include "vm.h"

int grant(struct vm *vm, uint64_t first, uint64_t count)
{
	return set64(vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0, count << 16 | first);
}

static sigjmp_buf illegal;

void on_sigill(int signal)
{
	siglongjmp(illegal, 1);
}

int inject(uint64_t value)
{
	if (sigsetjmp(illegal, 1))
		return 0;
	asm volatile("csrw 0x800, %0" : : "r" (value) : "memory");
	return 1;
}

static int inject_in_child(uint64_t value)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(inject(value));
	waitpid(child, &status, 0);
	return status != 0;
}

static void *inject_thread(void *argument)
{
	return (void *)(intptr_t)inject((uintptr_t)argument);
}

static int inject_in_thread(uint64_t value)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, inject_thread, (void *)value);
	pthread_join(thread, &result);
	return result != NULL;
}

static struct vm *dying_vm;

static void *dying_thread(void *argument)
{
	return (void *)(intptr_t)(grant(dying_vm, 1, 2) == 0 && inject(1));
}

static void become(const char *argument)
{
	execl("/proc/self/exe", "trapless_test", argument, NULL);
}

/* Nothing was granted to this program: 0 if so, whatever the one before had */
int after_execve(void)
{
	unsigned long i;

	for (i = 0; i < 1000000 && inject(2); i++)
		;
	if (i)
		printf("%lu times ugenvsei without a grant\n", i);
	return i != 0;
}

/* Another user of the address space, which therefore outlives execve() */
static int other_user(void *argument)
{
	pause();
	return 0;
}

/*
 * The exit status of a child that has a grant and executes a program that tries
 * to use it, perhaps while its old address space is in use elsewhere.
 */
static int execve_with_grant(int shared)
{
	pid_t child, other = 0;
	struct vm vm;
	int status;
	int result[2];

	fflush(stdout);
	if (pipe(result))
		fatal("pipe");
	child = fork();
	if (!child) {
		create_domain(&vm, 1);
		if (shared) {
			char *stack = malloc(65536);

			other = clone(other_user, stack + 65536,
				      CLONE_VM | SIGCHLD, NULL);
		}
		if (write(result[1], &other, sizeof(other)) != sizeof(other) ||
		    grant(&vm, 2, 3) || !inject(2))
			_exit(2);
		become(AFTER_EXECVE);
		_exit(3);
	}
	waitpid(child, &status, 0);
	if (read(result[0], &other, sizeof(other)) != sizeof(other))
		fatal("read from a pipe");
	if (other > 0)
		kill(other, SIGKILL);
	close(result[0]);
	close(result[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_execve(void)
{
	char name[] = "/dev/shm/trapless-XXXXXX";
	struct vm vm;
	int file;

	CHECK(execve_with_grant(0) == 0, "after execve: SIGILL");
	CHECK(execve_with_grant(1) == 0,
	      "after execve from an address space with other users: SIGILL");

	create_domain(&vm, 1);
	CHECK(grant(&vm, 2, 3) == 0 && inject(2), "a grant before execve");
	execl("/dev/null", "null", NULL);
	CHECK(inject(2), "it survives an execve that finds no program");
	/* Of a format that nobody knows */
	file = mkstemp(name);
	if (file < 0 || write(file, "nothing", 7) != 7 || fchmod(file, 0700) ||
	    close(file))
		fatal("write a file");
	execl(name, "nothing", NULL);
	CHECK(inject(2), "and one that fails to start what it found");
	unlink(name);
	destroy_vm(&vm);
}

void test_grant(void)
{
	char number[16];
	struct vm vm;
	void *result;
	pthread_t thread;
	pid_t child;
	int status;

	create_domain(&vm, 1);
	CHECK(!inject(1), "no grant: SIGILL");
	CHECK(grant(&vm, 2, 3) == 0 &&
	      get64(&vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0) == (3 << 16 | 2),
	      "grant of sources 2 to 4");
	CHECK(inject(2) && inject(4) && vcpu_word(&vm, 0, 0) == 0x14,
	      "both ends of the range are pending");
	CHECK(!inject(1) && !inject(5) && !inject(0) && !inject(0xffff),
	      "beside the range: SIGILL");
	CHECK(!inject(3ULL << 60) && !inject(4ULL << 60 | 2) &&
	      !inject(5ULL << 60 | 2) && !inject(15ULL << 60 | 2),
	      "other operations: SIGILL");
	CHECK(!inject_in_thread(2), "another thread: SIGILL");
	CHECK(!inject_in_child(2), "a child: SIGILL");
	sched_yield();
	usleep(1000);
	CHECK(inject(3), "the grant survives sleep");

	snprintf(number, sizeof(number), "%d", vm.dev);
	child = fork();
	if (!child) {
		/* The child's memory is its own: no grant even if it has the file */
		_exit(grant(&vm, 2, 1) == 0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0, "another process cannot use the device");

	CHECK(grant(&vm, 0, 0) == 0 && !inject(2), "given back: SIGILL");
	CHECK(grant(&vm, 0, 0) == -ENOENT, "nothing to give back");

	dying_vm = &vm;
	pthread_create(&thread, NULL, dying_thread, NULL);
	pthread_join(thread, &result);
	CHECK(result, "a thread dies with its grant");
	destroy_vm(&vm);

	test_execve();
}

