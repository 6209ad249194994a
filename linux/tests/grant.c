// SPDX-License-Identifier: GPL-2.0-only
/* Grants: who may write ugenvsei in user mode, and until when */

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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
	return inject(2);
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

	/* A thread's grant does not reach the program that replaces it */
	fflush(stdout);
	child = fork();
	if (!child) {
		create_domain(&vm, 1);
		if (grant(&vm, 2, 3) || !inject(2))
			_exit(2);
		become(AFTER_EXECVE);
		_exit(3);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	      "after execve: SIGILL (%x)", status);
}

