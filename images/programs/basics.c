// SPDX-License-Identifier: GPL-2.0-only
/*
 * basics WORK COUNT
 *
 * Does one kind of work COUNT times: what UnixBench measures and Debian has no
 * program of. The work is fixed, not the time.
 *
 *   integer   records, strings and calls, in the manner of Dhrystone
 *   float     arithmetic and functions on doubles, in the manner of Whetstone
 *   syscall   dup(), close(), getpid(), getuid() and umask()
 *   pipe      512 bytes to a pipe and out of it again
 *   execl     the program replaces itself by itself
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Noreturn void fatal(const char *what)
{
	perror(what);
	exit(1);
}

/* What the compiler must not see through. */
static volatile unsigned long integer_sink;
static volatile double float_sink;

struct record {
	struct record *next;
	unsigned int kind;
	unsigned int value;
	char name[32];
};

static __attribute__((noinline)) int compare(const struct record *a,
					     const struct record *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;

	return strcmp(a->name, b->name);
}

static __attribute__((noinline)) void change(struct record *record,
					    unsigned int value)
{
	struct record *next = record->next;

	*next = *record;
	next->next = record;
	next->value = record->value * 3 + value / 5;
	record->kind = next->value & 3;
	record->name[value & 15] = 'a' + (value & 7);
}

static void integer(unsigned long count)
{
	static unsigned int table[64][64];
	struct record one = { .name = "the first of the records" };
	struct record other = { .name = "the other of the records" };
	unsigned long round, sum = 0;
	int column;

	one.next = &other;
	other.next = &one;
	for (round = 0; round < count; round++) {
		/* Does not depend on how far the compiler looks ahead. */
		__asm__ volatile("" ::: "memory");
		change(round & 1 ? &other : &one, round);
		sum += compare(&one, &other) > 0 ? one.value : other.kind;
		for (column = 0; column < 8; column++)
			table[round & 63][column] += table[column][round & 63] + 1;
		sum += table[round & 63][7] % 7;
	}
	integer_sink = sum;
}

static void floats(unsigned long count)
{
	double a[4] = { 1.0, -1.0, -1.0, -1.0 };
	double t = 0.499975, x = 0.5, y = 0.5;
	unsigned long round;
	int i;

	for (round = 0; round < count; round++) {
		for (i = 0; i < 10; i++) {
			a[0] = (a[0] + a[1] + a[2] - a[3]) * t;
			a[1] = (a[0] + a[1] - a[2] + a[3]) * t;
			a[2] = (a[0] - a[1] + a[2] + a[3]) * t;
			a[3] = (-a[0] + a[1] + a[2] + a[3]) / 2.000025;
		}
		x = t * atan(2.0 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) + 1.5));
		y = sqrt(exp(log(1.0 + y * y) / 0.50000025)) / 2.0;
	}
	float_sink = a[0] + a[1] + a[2] + a[3] + x + y;
}

static void syscalls(unsigned long count)
{
	while (count--) {
		int copy = dup(STDIN_FILENO);

		if (copy < 0)
			fatal("basics: dup");
		close(copy);
		getpid();
		getuid();
		umask(022);
	}
}

static void pipes(unsigned long count)
{
	char block[512] = { 0 };
	int ends[2];

	if (pipe(ends))
		fatal("basics: pipe");
	while (count--)
		if (write(ends[1], block, sizeof(block)) != sizeof(block) ||
		    read(ends[0], block, sizeof(block)) != sizeof(block))
			fatal("basics: read or write of a pipe");
}

static void replace(unsigned long count)
{
	char left[24];

	if (!count)
		return;
	snprintf(left, sizeof(left), "%lu", count - 1);
	execl("/proc/self/exe", "basics", "execl", left, (char *)NULL);
	fatal("basics: execl");
}

static const struct {
	const char *name;
	void (*run)(unsigned long count);
} works[] = {
	{ "integer", integer },
	{ "float", floats },
	{ "syscall", syscalls },
	{ "pipe", pipes },
	{ "execl", replace },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc == 3 && i < sizeof(works) / sizeof(*works); i++)
		if (!strcmp(argv[1], works[i].name)) {
			works[i].run(strtoul(argv[2], NULL, 0));
			return 0;
		}
	fprintf(stderr, "usage: basics integer|float|syscall|pipe|execl COUNT\n");

	return 2;
}
