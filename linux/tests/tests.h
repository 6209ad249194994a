/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __TRAPLESS_TESTS_H
#define __TRAPLESS_TESTS_H

#include <stdint.h>
#include "vm.h"

/* grant.c */
void test_grant(void);
/* Argument of the program that replaces one with a grant, and what it does then */
#define AFTER_EXECVE	"after-execve"
int after_execve(void);
int grant(struct vm *vm, uint64_t first, uint64_t count);
/* Does the write to ugenvsei work in this thread? */
int inject(uint64_t value);
void on_sigill(int signal);

/* flood.c */
void test_flood(void);

/* boost.c */
void test_boost(void);
void test_boost_long(void);
void test_boost_very_long(void);

/* hog.c */
void test_hog(void);

/* events.c */
void test_events(void);

/* contexts.c */
void test_contexts(void);

/* context_hostile.c */
void test_context_hostile(void);

/* context_rights.c */
void test_context_rights(void);

/* context_stress.c */
void test_context_stress(void);

#endif /* __TRAPLESS_TESTS_H */
