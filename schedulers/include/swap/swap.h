/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap.h - SWAP (Zheng and Nieh, NSDI 2004), a layer that any policy can carry:
 * an object built with -DSWAP has it. Blocked tasks whose provider can run stay
 * queued, and the provider runs in their place. hooks.h has what the glue calls.
 */
#ifndef SCHEDLAB_SWAP_H
#define SCHEDLAB_SWAP_H

#include "swap/detect.h"
#include "swap/tell.h"

#endif
