// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A preloaded library: programs find the date DAYS later. Timeouts and clocks
 * that only measure are as they were. faketime asks for the real functions when
 * it is loaded, at which rustc's memory allocator waits for itself for ever.
 */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef DAYS
#define DAYS 3
#endif

#define LATER (DAYS * 24 * 60 * 60)

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int status = syscall(SYS_clock_gettime, clock, now);

	if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += LATER;
	return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	int status = syscall(SYS_gettimeofday, now, zone);

	if (!status)
		now->tv_sec += LATER;
	return status;
}

time_t time(time_t *at)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
