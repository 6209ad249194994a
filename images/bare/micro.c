// SPDX-License-Identifier: GPL-2.0-only
/*
 * The operations of workload `micro`, alone in the guest: without a kernel
 * whose interrupts, locks and schedulers are part of what is measured.
 * linux/drivers/test/micro.c does the same in Linux.
 *
 * Hart 0 measures and prints what images/init/trapless.sh describes; hart 1 is
 * the target of IPIs.  The device tree says what the machine has, and in
 * bootargs how often each operation is done.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BIT(n)		(1UL << (n))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define READ_ONCE(x)	(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))

#define STACK		4096
#define TARGET		1UL

/* Times that each operation is done before any is measured */
#define WARM_UP		20
/* How far ahead deadlines are that nobody waits for, and those that somebody does */
#define FAR		BIT(40)
#define SLEEP_NS	50000
/* Rounds of an empty loop */
#define PAUSE		10000
/* Until the host's console has printed a line, as `phase` of trapless.sh waits */
#define PRINT_NS	50000000

/* CSRs: RISC-V, AIA and Xtrapless (linux/include/asm/xtrapless.h) */
#define SIE		0x104
#define SCAUSE		0x142
#define STIMECMP	0x14d
#define SISELECT	0x150
#define SIREG		0x151
#define STOPEI		0x15c
#define SGENIPI		0x5d8
#define VSCLAIM		0x5d9

#define SSTATUS_SIE	BIT(1)
#define SOFT		1
#define TIMER		5
#define EXTERNAL	9

/* Registers of an interrupt file, and the interrupt that is the IPI */
#define EIDELIVERY	0x70
#define EITHRESHOLD	0x72
#define EIE0		0xc0
#define IMSIC_PAGE	0x1000
#define IMSIC_IPI	1

/* Registers of a PLIC: those of a context, of which each hart has one */
#define PLIC_CONTEXT(hart) (0x200000 + 0x1000 * (hart))
#define PLIC_CLAIM	4

/* 8250 */
#define UART_FIFO	2
#define UART_STATUS	5
#define UART_EMPTY	BIT(5)
#define UART_SCRATCH	7
#define UART_ROOM	16

#define SBI_BASE	0x10
#define SBI_TIME	0x54494d45
#define SBI_IPI		0x735049
#define SBI_HSM		0x48534d
#define SBI_SRST	0x53525354

#define csr_read(csr) ({						\
	unsigned long __value;						\
	asm volatile ("csrr %0, %1" : "=r" (__value) : "i" (csr) : "memory"); \
	__value;							\
})

#define csr_write(csr, value) ({					\
	asm volatile ("csrw %0, %1" : : "i" (csr), "rK" (value) : "memory"); \
})

/* A device of the machine */
struct device {
	const char *compatible;
	unsigned long base;
	bool found;
};

enum { APLIC, IMSICS, PLIC, XTRAPLESS, UART, DEVICES };

static struct device devices[DEVICES] = {
	[APLIC] = { "riscv,aplic" },
	[IMSICS] = { "riscv,imsics" },
	[PLIC] = { "riscv,plic0" },
	[XTRAPLESS] = { "trapless,ipi" },
	[UART] = { "ns16550a" },
};

static bool has_sstc;
static unsigned long tick_ns;
static const char *command_line;

/* What the handlers have done: hart 1's IPIs, hart 0's deadlines */
static unsigned long answers;
static unsigned long deadlines;

/* What hart 1 does until the next IPI, and whether it is there */
static bool second_idle = true;
static bool second_runs;

_Alignas(16) char first_stack[STACK];
static _Alignas(16) char second_stack[STACK];

void start_second(void);

/* The harts are in physical memory: addresses are what they seem. */
static volatile uint8_t *byte_at(unsigned long address)
{
	return (volatile uint8_t *)address;
}

static volatile uint32_t *word_at(unsigned long address)
{
	return (volatile uint32_t *)address;
}

static unsigned long now(void)
{
	unsigned long ticks;

	asm volatile ("rdtime %0" : "=r" (ticks) : : "memory");
	return ticks;
}

static inline
long ecall(unsigned long extension, unsigned long function, unsigned long arg0,
	   unsigned long arg1, unsigned long arg2)
{
	register unsigned long a0 asm("a0") = arg0;
	register unsigned long a1 asm("a1") = arg1;
	register unsigned long a2 asm("a2") = arg2;
	register unsigned long a6 asm("a6") = function;
	register unsigned long a7 asm("a7") = extension;

	asm volatile ("ecall" : "+r" (a0), "+r" (a1)
		      : "r" (a2), "r" (a6), "r" (a7) : "memory");
	return a0;
}

static void irq_disable(void)
{
	asm volatile ("csrci sstatus, %0" : : "i" (SSTATUS_SIE) : "memory");
}

static void irq_enable(void)
{
	asm volatile ("csrsi sstatus, %0" : : "i" (SSTATUS_SIE) : "memory");
}

/* Until an interrupt is pending, taken or not */
static void wfi(void)
{
	asm volatile ("wfi" : : : "memory");
}

static inline void set_timer(unsigned long time)
{
	if (has_sstc)
		csr_write(STIMECMP, time);
	else
		ecall(SBI_TIME, 0, time, 0, 0);
}

/* Output */

static void put(const char *text)
{
	static unsigned int room;

	for (; *text; text++) {
		/* Every look at the state is an exit: not more than needed. */
		if (!room) {
			while (!(*byte_at(devices[UART].base + UART_STATUS) & UART_EMPTY))
				;
			room = UART_ROOM;
		}
		*byte_at(devices[UART].base) = *text;
		room--;
	}
}

static void put_number(unsigned long number)
{
	char digits[24];
	char *text = digits + sizeof(digits);

	*--text = 0;
	do {
		*--text = '0' + number % 10;
		number /= 10;
	} while (number);
	put(text);
}

static _Noreturn void power_off(void)
{
	ecall(SBI_SRST, 0, 0, 0, 0);
	for (;;)
		wfi();
}

_Noreturn void fail(unsigned long cause, unsigned long pc)
{
	put("unexpected trap, cause and address: ");
	put_number(cause);
	put(" ");
	put_number(pc);
	put("\n@trapless end guest micro status=1\n");
	power_off();
}

/* Traps.  No calls here, so that few registers are saved. */
void __attribute__((interrupt("supervisor"))) trap(void)
{
	switch (csr_read(SCAUSE)) {
	case BIT(63) | SOFT:
		asm volatile ("csrci sip, %0" : : "i" (BIT(SOFT)) : "memory");
		WRITE_ONCE(answers, answers + 1);
		break;
	case BIT(63) | EXTERNAL:
		asm volatile ("csrw %0, zero" : : "i" (STOPEI) : "memory");
		WRITE_ONCE(answers, answers + 1);
		break;
	case BIT(63) | TIMER:
		set_timer(-1UL);
		WRITE_ONCE(deadlines, deadlines + 1);
		break;
	default:
		asm volatile ("csrr a0, scause\n\tcsrr a1, sepc\n\tj fail");
		__builtin_unreachable();
	}
}

static void set_up_interrupts(void)
{
	if (devices[IMSICS].found) {
		csr_write(SISELECT, EITHRESHOLD);
		csr_write(SIREG, 0);
		csr_write(SISELECT, EIE0);
		csr_write(SIREG, BIT(IMSIC_IPI));
		csr_write(SISELECT, EIDELIVERY);
		csr_write(SIREG, 1);
	}
	set_timer(-1UL);
	csr_write(SIE, BIT(SOFT) | BIT(TIMER) |
		  (devices[IMSICS].found ? BIT(EXTERNAL) : 0));
	irq_enable();
}

_Noreturn void second(void)
{
	set_up_interrupts();
	WRITE_ONCE(second_runs, true);
	for (;;) {
		/* An IPI that comes between look and WFI ends it. */
		if (READ_ONCE(second_idle)) {
			irq_disable();
			if (READ_ONCE(second_idle))
				wfi();
			irq_enable();
		}
	}
}

/* Sleeps on hart 0 until @time. */
static void sleep_until(unsigned long time)
{
	unsigned long before = deadlines;

	set_timer(time);
	while (READ_ONCE(deadlines) == before) {
		irq_disable();
		if (READ_ONCE(deadlines) == before)
			wfi();
		irq_enable();
	}
}

/* Operations: each does it so often and returns ticks, or -1 without what it needs. */

static long hypercall(unsigned long count)
{
	unsigned long begin = now();

	while (count--)
		ecall(SBI_BASE, 0, 0, 0, 0);
	return now() - begin;
}

static long io_kernel(unsigned long count)
{
	unsigned long begin = now();

	if (!devices[APLIC].found)
		return -1;
	while (count--)
		*word_at(devices[APLIC].base);
	return now() - begin;
}

static long io_user(unsigned long count)
{
	unsigned long begin = now();

	while (count--)
		*byte_at(devices[UART].base + UART_SCRATCH);
	return now() - begin;
}

static long claim(unsigned long count)
{
	volatile uint32_t *plic = word_at(devices[PLIC].base + PLIC_CONTEXT(0) + PLIC_CLAIM);
	unsigned long begin = now();

	if (devices[XTRAPLESS].found) {
		while (count--) {
			csr_read(VSCLAIM);
			csr_write(VSCLAIM, 0);
		}
	} else if (devices[IMSICS].found) {
		unsigned long value;

		while (count--)
			asm volatile ("csrrw %0, %1, zero"
				      : "=r" (value) : "i" (STOPEI) : "memory");
	} else if (devices[PLIC].found) {
		while (count--)
			*plic = *plic;
	} else {
		return -1;
	}
	return now() - begin;
}

/* In Linux one in a hundred expires at once; here nobody else needs a deadline. */
static long timer(unsigned long count)
{
	unsigned long begin = now();

	while (count--)
		set_timer(now() + FAR);
	return now() - begin;
}

static void send_ipi(void)
{
	/* What the IPI is about is visible before it. */
	asm volatile ("fence rw, ow" : : : "memory");
	if (devices[XTRAPLESS].found)
		csr_write(SGENIPI, BIT(TARGET));
	else if (devices[IMSICS].found)
		*word_at(devices[IMSICS].base + TARGET * IMSIC_PAGE) = IMSIC_IPI;
	else
		ecall(SBI_IPI, 0, BIT(TARGET), 0, 0);
}

static void call(void)
{
	unsigned long before = READ_ONCE(answers);

	send_ipi();
	while (READ_ONCE(answers) == before)
		;
}

static long ipi(unsigned long count)
{
	unsigned long begin;
	long ticks;

	if (!second_runs)
		return -1;
	/* It looks at this when it is awake. */
	WRITE_ONCE(second_idle, false);
	call();
	begin = now();
	while (count--)
		call();
	ticks = now() - begin;
	WRITE_ONCE(second_idle, true);
	return ticks;
}

/*
 * The pause, which is not measured, lets the target get to its WFI: where an
 * IPI is faster than that, it would find it awake.  It is longer each time, so
 * that the ticks' rounding is not the same each time.
 */
static long ipi_idle(unsigned long count)
{
	unsigned long i, j;
	long ticks = 0;

	if (!second_runs)
		return -1;
	for (i = 0; i < count; i++) {
		unsigned long begin;

		for (j = 0; j < PAUSE + i % 64; j++)
			asm volatile ("");
		begin = now();
		call();
		ticks += now() - begin;
	}
	return ticks;
}

/* Time after the deadline until it goes on here. */
static long wake(unsigned long count)
{
	long late = 0;

	while (count--) {
		unsigned long until = now() + SLEEP_NS / tick_ns;

		sleep_until(until);
		late += now() - until;
	}
	return late;
}

static const struct operation {
	const char *name;
	long (*run)(unsigned long count);
	/* It is done only once where others are done so often */
	unsigned int slow;
} operations[] = {
	{ "hypercall", hypercall, 1 },
	{ "io_kernel", io_kernel, 1 },
	{ "io_user", io_user, 1 },
	{ "claim", claim, 1 },
	{ "timer", timer, 1 },
	{ "ipi", ipi, 1 },
	{ "ipi_idle", ipi_idle, 1 },
	{ "wake", wake, 10 },
};

/* The device tree */

/* Whether the strings of a property, one after the other, have this one. */
static bool has_string(const char *strings, unsigned int length, const char *wanted)
{
	const char *end = strings + length;

	while (strings < end) {
		const char *at = wanted;

		while (*strings && *strings == *at) {
			strings++;
			at++;
		}
		if (!*strings && !*at)
			return true;
		while (*strings)
			strings++;
		strings++;
	}
	return false;
}

static bool same(const char *string, const char *other)
{
	return has_string(string, 1, other);
}

static uint32_t big_endian(const uint32_t *word)
{
	const uint8_t *byte = (const uint8_t *)word;

	return (uint32_t)byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3];
}

static void look_at_tree(const uint32_t *tree)
{
	const char *names = (const char *)tree + big_endian(tree + 3);
	const uint32_t *at = tree + big_endian(tree + 2) / 4;
	/* Of the node */
	const char *compatible = NULL;
	const uint32_t *reg = NULL;
	unsigned int compatible_length = 0;

	for (;;) {
		unsigned int length, i;
		const char *name;

		switch (big_endian(at++)) {
		case 1: /* Begin of a node, and its name */
			compatible = NULL;
			reg = NULL;
			name = (const char *)at;
			while (*name)
				name++;
			at += (name - (const char *)at) / 4 + 1;
			continue;
		case 3: /* Property: length, name, value */
			break;
		case 9: /* End of the tree */
			return;
		default:
			continue;
		}
		length = big_endian(at);
		name = names + big_endian(at + 1);
		at += 2;
		if (same(name, "compatible")) {
			compatible = (const char *)at;
			compatible_length = length;
		} else if (same(name, "reg")) {
			reg = at;
		} else if (same(name, "bootargs")) {
			command_line = (const char *)at;
		} else if (same(name, "timebase-frequency")) {
			tick_ns = 1000000000 / big_endian(at);
		} else if (same(name, "riscv,isa-extensions")) {
			has_sstc = has_string((const char *)at, length, "sstc");
		}
		at += (length + 3) / 4;
		if (!compatible)
			continue;
		for (i = 0; i < DEVICES; i++) {
			if (!has_string(compatible, compatible_length, devices[i].compatible))
				continue;
			devices[i].found = true;
			/* Two cells; all are in the first 4 GiB. */
			if (reg)
				devices[i].base = big_endian(reg + 1);
		}
	}
}

/* The number behind this word of the command line, or @otherwise */
static unsigned long option(const char *word, unsigned long otherwise)
{
	const char *text = command_line;
	unsigned long number = 0;

	for (; text && *text; text++) {
		const char *at = word;
		const char *found = text;

		while (*at && *found == *at) {
			at++;
			found++;
		}
		if (*at)
			continue;
		while (*found >= '0' && *found <= '9')
			number = 10 * number + *found++ - '0';
		return number;
	}
	return otherwise;
}

/* A line of the protocol: on the console when this returns */
static void phase(const char *name)
{
	put("@trapless phase ");
	put(name);
	put("\n");
	sleep_until(now() + PRINT_NS / tick_ns);
}

static unsigned long times(const struct operation *op, unsigned long count)
{
	return (count + op->slow - 1) / op->slow;
}

_Noreturn void first(unsigned long hart, const uint32_t *tree)
{
	long ticks[ARRAY_SIZE(operations)];
	unsigned long count;
	unsigned int i;

	look_at_tree(tree);
	count = option("set.count=", 1000);
	*byte_at(devices[UART].base + UART_FIFO) = 1;
	set_up_interrupts();
	if (!ecall(SBI_HSM, 0, TARGET, (unsigned long)start_second,
		   (unsigned long)second_stack + STACK)) {
		while (!READ_ONCE(second_runs))
			;
	}

	/* What happens at the first time only is over before it is measured. */
	for (i = 0; i < ARRAY_SIZE(operations); i++)
		operations[i].run(WARM_UP);
	/* Other guests of the host, whose output nobody reads */
	while (option("trapless.repeat=", 0))
		for (i = 0; i < ARRAY_SIZE(operations); i++)
			operations[i].run(times(&operations[i], count));

	put("@trapless begin guest micro\n");
	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		phase(operations[i].name);
		ticks[i] = operations[i].run(times(&operations[i], count));
		phase("between");
	}
	put("@trapless end guest micro status=0\n");
	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		if (ticks[i] < 0)
			continue;
		put("@trapless result ");
		put(operations[i].name);
		put("_cycles=");
		put_number(ticks[i] * tick_ns / times(&operations[i], count));
		put("\n");
	}
	power_off();
}
