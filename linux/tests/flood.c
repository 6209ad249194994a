// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that sends without end to vCPUs which get almost nothing of their
 * hart must not take that hart's time either: the host is told at most once
 * each time a vCPU goes off its hart.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "tests.h"
#include "vm.h"

#define SENDER_CPU	0
#define VICTIM_CPU	1

static volatile int hog_stops;

static void *hog(void *argument)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(VICTIM_CPU, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) ||
	    setpriority(PRIO_PROCESS, 0, -20))
		fatal("set up the hog");
	while (!hog_stops)
		;
	return NULL;
}

/* Times the thread of the vCPU has been scheduled off */
static unsigned long switches(struct vcpu *vcpu)
{
	unsigned long total = 0, n;
	char name[64], line[256], *text;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", vcpu->tid);
	file = fopen(name, "r");
	while (file && fgets(line, sizeof(line), file)) {
		text = strstr(line, "voluntary_ctxt_switches:");
		if (text && sscanf(strchr(text, ':'), ": %lu", &n) == 1)
			total += n;
	}
	if (!file || fclose(file))
		fatal("read how often a vCPU was scheduled");
	return total;
}

static void flood(int targets, unsigned long sends)
{
	unsigned long notified, scheduled = 0;
	volatile struct shared *sender;
	int i, woken = 0;
	pthread_t thread;
	struct vm vm;

	create_domain(&vm, 1 + targets);
	vm.vcpus[0].cpu = SENDER_CPU;
	start(&vm.vcpus[0]);
	for (i = 1; i <= targets; i++) {
		vm.vcpus[i].cpu = VICTIM_CPU;
		vm.vcpus[i].nice = 19;
		start(&vm.vcpus[i]);
	}
	for (i = 0; i <= targets; i++)
		reaches(&vm.vcpus[i].shared->rounds, 1);
	hog_stops = 0;
	if (pthread_create(&thread, NULL, hog, NULL))
		fatal("start the hog");
	usleep(20000);

	for (i = 1; i <= targets; i++)
		scheduled -= switches(&vm.vcpus[i]);
	notified = notifications(VICTIM_CPU);
	sender = vm.vcpus[0].shared;
	sender->repeat = sends;
	sender->argument = ((1ULL << targets) - 1) << 1;
	sender->command = 1;
	irq_line(&vm, 1, 1);
	for (i = 0; i < 60000 && sender->command; i++)
		usleep(1000);
	notified = notifications(VICTIM_CPU) - notified;
	for (i = 1; i <= targets; i++)
		scheduled += switches(&vm.vcpus[i]);
	CHECK(!sender->command && notified <= scheduled + targets,
	      "%lu sgenipi to %d vCPUs: %lu notifications, scheduled off %lu times",
	      sends, targets, notified, scheduled);

	hog_stops = 1;
	pthread_join(thread, NULL);
	for (i = 1; i <= targets; i++) {
		reaches(&vm.vcpus[i].shared->soft, 1);
		woken += vm.vcpus[i].shared->soft > 0;
	}
	CHECK(woken == targets, "%d of them were interrupted", woken);
	for (i = 0; i <= targets; i++)
		stop(&vm.vcpus[i]);
	destroy_vm(&vm);
}

void test_flood(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("skip flood: it needs two CPUs\n");
		return;
	}
	flood(1, 50000);
	/*
	 * One interrupt tells of many vCPUs: the bound on interrupts says less
	 * than for one target. Each notification is in the machine's log.
	 */
	flood(31, 6000);
}
