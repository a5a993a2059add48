/* Attributes that containers and pools are given alike: two that may be set, one without a value or size, and one without a name. */
#ifndef ATTRS_H
#define ATTRS_H

#include "harness.h"

static char const *const names[2]   = {"colour", "depth"}, *const nameless[2] = {"colour", ""}, *const unknown[1] = {"none"};
static const void *const values[2]  = {"green", "7"}, *const none[2] = {"green", NULL};
static const size_t      sizes[2]   = {5, 1}, nothing[2] = {5, 0};
static char              one[3], two[8];
static void *const       bufs[2] = {one, two};

#endif /* ATTRS_H */
