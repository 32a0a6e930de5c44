/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libenzi/epochs.h - the epochs of 2.4, of one CPU each.
 */
#ifndef SCHEDLAB_EPOCHS_H
#define SCHEDLAB_EPOCHS_H

#include "epoch_2_4.h"

#define EPOCH(verb, ...) v2_4_##verb(__VA_ARGS__)

#endif
