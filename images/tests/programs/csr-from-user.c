// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tries every register of Xtrapless from user mode, of a host or of a guest, in
 * every way, without a grant: each try must end in SIGILL.
 *
 * Prints "tries=N reached=N"; exits with 1 if a try did not end in SIGILL.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf illegal;

static void on_sigill(int signal)
{
	siglongjmp(illegal, 1);
}

static int tries, reached;

static void got_through(unsigned int csr, const char *how)
{
	printf("csr 0x%x %s: no SIGILL\n", csr, how);
	reached++;
}

#define TRY(csr, how, ...)						\
	do {								\
		tries++;						\
		if (!sigsetjmp(illegal, 1)) {				\
			asm volatile(__VA_ARGS__);			\
			got_through(csr, how);				\
		}							\
	} while (0)

#define TRY_ALL(csr)							\
	do {								\
		unsigned long out, in = 1UL << 63 | 1UL << 32 | 1;	\
									\
		TRY(csr, "read", "csrr %0, " #csr : "=r" (out));	\
		TRY(csr, "write", "csrw " #csr ", %0" : : "r" (in));	\
		TRY(csr, "write 0", "csrw " #csr ", zero" :);		\
		TRY(csr, "swap", "csrrw %0, " #csr ", %1" :		\
		    "=r" (out) : "r" (in));				\
		TRY(csr, "set", "csrs " #csr ", %0" : : "r" (in));	\
		TRY(csr, "clear", "csrc " #csr ", %0" : : "r" (in));	\
	} while (0)

int main(void)
{
	struct sigaction action = { .sa_handler = on_sigill };

	sigaction(SIGILL, &action, NULL);
	/* ugenvsei; sgenipi, vsclaim, vsenable, vsthreshold */
	TRY_ALL(0x800);
	TRY_ALL(0x5d8);
	TRY_ALL(0x5d9);
	TRY_ALL(0x5da);
	TRY_ALL(0x5db);
	/* hifmap, htlcfg, hgenvsi, hnotify, hgrant, hnqbase, hvtablebase */
	TRY_ALL(0x6c0);
	TRY_ALL(0x6c1);
	TRY_ALL(0x6c2);
	TRY_ALL(0x6c3);
	TRY_ALL(0x6c4);
	TRY_ALL(0x6c5);
	TRY_ALL(0x6c6);
	printf("tries=%d reached=%d\n", tries, reached);
	return reached != 0;
}
