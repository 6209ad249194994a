// SPDX-License-Identifier: GPL-2.0-only
/*
 * naps COUNT: sleeps COUNT times for a millisecond.
 *
 * Reads no time: rdtime is an illegal instruction in the guests of QEMU 10 as
 * VMM, which rules out cyclictest and the vDSO.
 */

#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	long count = argc > 1 ? atol(argv[1]) : 0;

	while (count-- > 0)
		if (nanosleep(&nap, NULL))
			return 1;
	return 0;
}
