// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_lines: takes interrupts of one CPU away from it while they are on
 * their way, for the system tests. In a guest with the test device of the VMM
 * (see linux/drivers/test/seq_device.c for its registers), on any interrupt
 * controller.
 *
 * insmod lets CPU 0 mask, disable, free and move each source of CPU 1, at each
 * of these moments of an interrupt there:
 *
 *	pending		CPU 1 has its interrupts disabled
 *	claimed		some time after the line was raised: anything may be the case
 *	in service	its handler runs, and leaves the line as it is
 *
 *	rounds	pairs that were tried
 *	hangs	of these, pairs after which CPU 1 did not react to an IPI (must be 0)
 *	lost	pairs after which the interrupt did not come, although it was enabled
 *		again and may not be lost (must be 0)
 *	twice	edges that came twice (must be 0)
 *	refused	moves that the driver of an AIA refused, as another one was not over
 *
 * leave=HOW raises all sources but edges, and leaves them like that to the next
 * kernel: `masked', `disabled' or `freed'; or it panics while they are `pending'
 * on CPU 1, `claimed' (CPU 1 takes them again and again), `served' by a handler
 * on CPU 1 that does not end, or in such a handler itself (`here'). With adopt=1
 * the next kernel takes them, and then tries all pairs if it has a CPU 1, or else
 * raises each line once more.
 *
 *	adopted	sources that came (must be all but edges)
 */

#define pr_fmt(fmt) "trapless_lines: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#define REG_SOURCES	0x04
#define REG_PAGE_LO	0x08
#define REG_PAGE_HI	0x0c
#define REG_COUNT	0x10
#define REG_INTERVAL	0x14
#define REG_BURST	0x18
#define REG_CONTROL	0x1c
#define REG_ACK		0x20
#define REG_ERRORS	0x24
#define REG_MASK	0x28

#define MAX_SOURCES	32
#define KIND_EDGE	0

/* CPU that interrupts are taken away from, and handled by; a crash kernel has one CPU */
#define TARGET		(nr_cpu_ids > 1 ? 1 : 0)
/* A guest whose vCPUs wait for a hart is slow, but not that slow */
#define PATIENCE_US	(1 * USEC_PER_SEC)
/* The AIA's driver enables an interrupt of another CPU at a tick of that CPU */
#define ENABLE_US	(20 * USEC_PER_MSEC)
/* How far "claimed" is from the moment when the device raises the line */
#define CLAIM_STEPS	12
#define CLAIM_STEP_NS	1500
#define SERVICE_US	200

enum operation { MASK, DISABLE, FREE, MOVE, OPERATIONS };
enum moment { PENDING, CLAIMED, IN_SERVICE, MOMENTS };

static const char * const operation_names[] = { "mask", "disable", "free", "move" };
static const char * const moment_names[] = { "pending", "claimed", "in service" };
static const char * const kind_names[] = { "edge", "level", "resample" };

static unsigned int rounds;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "Result: pairs that were tried");

static unsigned int hangs;
module_param(hangs, uint, 0444);
MODULE_PARM_DESC(hangs, "Result: those after which CPU 1 did not react");

static unsigned int lost;
module_param(lost, uint, 0444);
MODULE_PARM_DESC(lost, "Result: interrupts that were lost");

static unsigned int twice;
module_param(twice, uint, 0444);
MODULE_PARM_DESC(twice, "Result: edges that came twice");

static unsigned int refused;
module_param(refused, uint, 0444);
MODULE_PARM_DESC(refused, "Result: moves that the controller's driver refused for now");

static unsigned int adopted;
module_param(adopted, uint, 0444);
MODULE_PARM_DESC(adopted, "Result: sources of an earlier kernel that came");

/* How sources are left to the next kernel: by kexec up to FREED, else by a panic */
enum way { STAY, MASKED, DISABLED, FREED, PENDING_THERE, CLAIMED_THERE, SERVED, HERE };

static const char * const way_names[] = {
	[STAY] = "", [MASKED] = "masked", [DISABLED] = "disabled", [FREED] = "freed",
	[PENDING_THERE] = "pending", [CLAIMED_THERE] = "claimed", [SERVED] = "served",
	[HERE] = "here",
};

static enum way way;

static int set_way(const char *value, const struct kernel_param *kp)
{
	int found = sysfs_match_string(way_names, value);

	if (found < 0)
		return found;
	way = found;
	return 0;
}

static const struct kernel_param_ops way_ops = { .set = set_way };
module_param_cb(leave, &way_ops, NULL, 0);
MODULE_PARM_DESC(leave, "How sources are left to the next kernel");

static bool adopt;
module_param(adopt, bool, 0444);
MODULE_PARM_DESC(adopt, "Takes the sources that an earlier kernel has left");

struct shared_source {
	u64 sent;
	u64 handled;
	u64 reserved[6];
};

static void __iomem *regs;
static struct shared_source *shared;
static struct device *device;

/* The source that is tried */
static unsigned int number;
static u32 kind;
static int irq;
static unsigned int calls;
/* Its handler waits for the operation, and does not look after the device */
static bool linger;
static bool operating;

/* CPU 1 does not take interrupts */
static bool holding, release;

/* Has the device sent what nobody has handled? */
static bool is_owed(void)
{
	return READ_ONCE(shared[number].sent) > READ_ONCE(shared[number].handled);
}

static irqreturn_t lines_interrupt(int unused, void *data)
{
	/*
	 * A level may come once too often. Behind a PLIC, which has no triggers in
	 * the device tree, Linux takes it for an edge: what came while it was
	 * disabled is resent by software, on the CPU that enables it, and comes from
	 * the PLIC, too.
	 */
	if (kind != KIND_EDGE && !is_owed())
		return IRQ_NONE;
	if (READ_ONCE(linger)) {
		WRITE_ONCE(linger, false);
		while (!READ_ONCE(operating))
			cpu_relax();
		udelay(SERVICE_US);
		if (kind != KIND_EDGE)
			return IRQ_HANDLED;
	}
	/* The device may lower the line now */
	smp_store_release(&shared[number].handled, 1);
	writel(number, regs + REG_ACK);
	WRITE_ONCE(calls, calls + 1);

	return IRQ_HANDLED;
}

static void hold(void *unused)
{
	WRITE_ONCE(holding, true);
	while (!READ_ONCE(release))
		cpu_relax();
}

static void answer(void *answered)
{
	WRITE_ONCE(*(bool *)answered, true);
}

static bool answered;
static call_single_data_t hold_call = CSD_INIT(hold, NULL);
static call_single_data_t answer_call = CSD_INIT(answer, &answered);

/* Waits for something that CPU 1 or the device does; is it done in time? */
#define wait_for(condition) wait_for_us(condition, PATIENCE_US)
#define wait_for_us(condition, us)					\
({									\
	ktime_t end_ = ktime_add_us(ktime_get(), us);			\
	bool done_;							\
									\
	while (!(done_ = (condition)) && ktime_before(ktime_get(), end_)) \
		udelay(1);						\
	done_;								\
})

static int request(irq_handler_t handler)
{
	int ret = request_irq(irq, handler, IRQF_NOBALANCING | IRQF_NO_THREAD,
			      "trapless-lines", device);

	return ret ?: irq_set_affinity(irq, cpumask_of(TARGET));
}

static int operate(enum operation operation)
{
	switch (operation) {
	case MASK:
		irq_set_status_flags(irq, IRQ_DISABLE_UNLAZY);
		disable_irq(irq);
		return 0;
	case DISABLE:
		irq_clear_status_flags(irq, IRQ_DISABLE_UNLAZY);
		disable_irq(irq);
		return 0;
	case FREE:
		free_irq(irq, device);
		return 0;
	default:
		return irq_set_affinity(irq, cpumask_of(0));
	}
}

static int undo(enum operation operation)
{
	switch (operation) {
	case MASK:
	case DISABLE:
		enable_irq(irq);
		return 0;
	case FREE:
		return request(lines_interrupt);
	default:
		return 0;
	}
}

/* The device raises the lines of these sources, once. */
static void raise_lines(u32 mask)
{
	unsigned int source;

	for (source = 0; source < MAX_SOURCES; source++)
		WRITE_ONCE(shared[source].sent, 0);
	/* In this order: nothing is owed meanwhile */
	smp_wmb();
	for (source = 0; source < MAX_SOURCES; source++)
		WRITE_ONCE(shared[source].handled, 0);
	writel(mask, regs + REG_MASK);
	writel(1, regs + REG_CONTROL);
}

static bool was_raised(void)
{
	return wait_for(!readl(regs + REG_CONTROL));
}

/* CPU 1 takes no interrupts until it is released. */
static bool hold_target(void)
{
	WRITE_ONCE(release, false);
	WRITE_ONCE(holding, false);
	smp_call_function_single_async(TARGET, &hold_call);
	return wait_for(READ_ONCE(holding));
}

/* Brings the interrupt to its moment on CPU 1. */
static bool reach(enum moment moment, unsigned int step)
{
	switch (moment) {
	case PENDING:
		if (!hold_target())
			return false;
		raise_lines(BIT(number));
		return was_raised();
	case CLAIMED:
		raise_lines(BIT(number));
		if (!wait_for(READ_ONCE(shared[number].sent)))
			return false;
		ndelay(step * CLAIM_STEP_NS);
		return true;
	default:
		WRITE_ONCE(operating, false);
		WRITE_ONCE(linger, true);
		raise_lines(BIT(number));
		return wait_for(!READ_ONCE(linger));
	}
}

static void complain(unsigned int *count, const char *what,
		     enum operation operation, enum moment moment)
{
	++*count;
	pr_err("%s: %s of a source, %s, %s on CPU %d (sent %llu, handled %llu, %u calls, %u errors)\n",
	       what, operation_names[operation], kind_names[kind],
	       moment_names[moment], TARGET, READ_ONCE(shared[number].sent),
	       READ_ONCE(shared[number].handled), READ_ONCE(calls),
	       readl(regs + REG_ERRORS));
}

/* CPU 1 takes interrupts. If it does not, its line is lowered to end that. */
static void check_target(enum operation operation, enum moment moment)
{
	WRITE_ONCE(answered, false);
	smp_call_function_single_async(TARGET, &answer_call);
	if (wait_for(READ_ONCE(answered)))
		return;
	complain(&hangs, "hangs", operation, moment);
	/* The device may lower the line now */
	smp_store_release(&shared[number].handled, 1);
	writel(number, regs + REG_ACK);
	wait_for(READ_ONCE(answered));
}

static int try(enum operation operation, enum moment moment, unsigned int step)
{
	bool reached;
	int ret;

	rounds++;
	WRITE_ONCE(calls, 0);
	/* The AIA moves a source at its own time, and until then refuses to again. */
	wait_for((ret = irq_set_affinity(irq, cpumask_of(TARGET))) != -EBUSY);
	if (ret)
		return ret;
	reached = reach(moment, step);
	WRITE_ONCE(operating, true);
	ret = operate(operation);
	if (ret == -EBUSY) {
		refused++;
		ret = 0;
	}
	WRITE_ONCE(release, true);
	if (!reached)
		complain(&lost, "does not come", operation, moment);
	if (!ret)
		check_target(operation, moment);
	if (!ret)
		ret = undo(operation);
	/* What is resent is handled here, and not in the middle of the next pair */
	local_bh_disable();
	local_bh_enable();
	/* An edge for nobody is nobody's; if it comes, then not in the next pair */
	if (kind == KIND_EDGE && operation == FREE)
		wait_for_us(READ_ONCE(calls), ENABLE_US);
	else if (!ret && !shared[number].handled && !wait_for(READ_ONCE(calls)))
		complain(&lost, "lost", operation, moment);
	/* The device has to be done with it */
	was_raised();
	if (kind == KIND_EDGE && READ_ONCE(calls) > 1)
		complain(&twice, "twice", operation, moment);
	writel(0, regs + REG_CONTROL);

	return ret;
}

static int try_all(void)
{
	unsigned int operation, moment, step, steps;
	int ret;

	for (operation = 0; operation < OPERATIONS; operation++)
		for (moment = 0; moment < MOMENTS; moment++) {
			steps = moment == CLAIMED ? CLAIM_STEPS : 1;
			for (step = 0; step < steps; step++) {
				ret = try(operation, moment, step);
				if (ret)
					return ret;
			}
		}

	return 0;
}

/* Does this with each source: its number, kind and interrupt are set. */
static int with_each_source(struct platform_device *pdev, int (*action)(void))
{
	u32 kinds[MAX_SOURCES];
	unsigned int sources = readl(regs + REG_SOURCES);
	int ret;

	if (sources > MAX_SOURCES)
		return -ENXIO;
	ret = device_property_read_u32_array(device, "trapless,kinds", kinds,
					     sources);
	for (number = 0; !ret && number < sources; number++) {
		kind = kinds[number];
		irq = platform_get_irq(pdev, number);
		ret = irq < 0 ? irq : action();
	}

	return ret;
}

static int try_source(void)
{
	int ret = request(lines_interrupt);

	if (ret)
		return ret;
	ret = try_all();
	free_irq(irq, device);

	return ret;
}

/* Sources that are left to the next kernel */
static u32 left;

/* Leaves the line as it is, so that it comes again, until it is told to stay. */
static irqreturn_t left_interrupt(int unused, void *data)
{
	if (READ_ONCE(linger)) {
		if (way == HERE)
			panic("trapless_lines: in a handler");
		WRITE_ONCE(linger, false);
		for (;;)
			cpu_relax();
	}
	WRITE_ONCE(calls, calls + 1);

	return IRQ_HANDLED;
}

static int leave_source(void)
{
	int ret;

	if (kind == KIND_EDGE)
		return 0;
	left |= BIT(number);
	ret = request(left_interrupt);
	if (ret)
		return ret;
	switch (way) {
	case MASKED:
		return operate(MASK);
	case DISABLED:
		return operate(DISABLE);
	case FREED:
		return operate(FREE);
	default:
		return 0;
	}
}

static int leave_sources(struct platform_device *pdev)
{
	bool reached = true;
	int ret = with_each_source(pdev, leave_source);

	if (ret)
		return ret;
	if (way == PENDING_THERE)
		reached = hold_target();
	linger = way == SERVED || way == HERE;
	raise_lines(left);
	if (way == CLAIMED_THERE)
		reached = wait_for(READ_ONCE(calls) > 100);
	else if (linger)
		reached = wait_for(!READ_ONCE(linger));
	else
		reached &= was_raised();
	if (!reached)
		return -ETIMEDOUT;
	if (way > FREED)
		panic("trapless_lines: %s", way_names[way]);
	/*
	 * The next kernel may have something else in the page when it completes a
	 * source, and the device asks there whether the source is handled. What is no
	 * memory reads as 0.
	 */
	writel(0, regs + REG_PAGE_LO);
	writel(0, regs + REG_PAGE_HI);

	return 0;
}

/* Its line has been high since an earlier kernel. */
static int adopt_source(void)
{
	int ret;

	if (kind == KIND_EDGE)
		return 0;
	WRITE_ONCE(calls, 0);
	ret = request(lines_interrupt);
	if (ret)
		return ret;
	if (wait_for(READ_ONCE(calls)))
		adopted++;
	free_irq(irq, device);

	return 0;
}

static int raise_source(void)
{
	int ret;

	WRITE_ONCE(calls, 0);
	ret = request(lines_interrupt);
	if (ret)
		return ret;
	rounds++;
	raise_lines(BIT(number));
	if (!wait_for(READ_ONCE(calls)))
		lost++;
	was_raised();
	free_irq(irq, device);

	return 0;
}

static int adopt_sources(struct platform_device *pdev)
{
	unsigned int source;
	int ret;

	for (source = 0; source < MAX_SOURCES; source++)
		shared[source].sent = 1;
	ret = with_each_source(pdev, adopt_source);
	if (ret)
		return ret;

	return with_each_source(pdev, TARGET ? try_source : raise_source);
}

static long try_sources(void *data)
{
	struct platform_device *pdev = data;

	if (way != STAY)
		return leave_sources(pdev);
	if (adopt)
		return adopt_sources(pdev);

	return with_each_source(pdev, try_source);
}

static int __init lines_probe(struct platform_device *pdev)
{
	phys_addr_t page;

	device = &pdev->dev;
	regs = devm_platform_ioremap_resource(pdev, 0);
	if (IS_ERR(regs))
		return PTR_ERR(regs);
	shared = (void *)devm_get_free_pages(device, GFP_KERNEL | __GFP_ZERO, 0);
	if (!shared)
		return -ENOMEM;
	page = virt_to_phys(shared);
	/* This lowers lines, but for those of an earlier kernel: they are the test. */
	if (!adopt)
		writel(0, regs + REG_CONTROL);
	writel(lower_32_bits(page), regs + REG_PAGE_LO);
	writel(upper_32_bits(page), regs + REG_PAGE_HI);
	writel(1, regs + REG_COUNT);
	writel(0, regs + REG_INTERVAL);
	writel(1, regs + REG_BURST);

	return work_on_cpu(0, try_sources, pdev);
}

static const struct of_device_id lines_match[] = {
	{ .compatible = "trapless,test-device" },
	{}
};

static struct platform_driver lines_driver = {
	.driver = {
		.name			= "trapless-lines",
		.of_match_table		= lines_match,
		.suppress_bind_attrs	= true,
	},
};

static int __init lines_init(void)
{
	return platform_driver_probe(&lines_driver, lines_probe);
}
module_init(lines_init);

static void __exit lines_exit(void)
{
	platform_driver_unregister(&lines_driver);
}
module_exit(lines_exit);

MODULE_DESCRIPTION("Interrupts that are taken away from a CPU, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");
