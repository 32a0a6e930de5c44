/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hamq/epochs.h - the epochs of 2.5.2, of one CPU each.
 */
#ifndef SCHEDLAB_EPOCHS_H
#define SCHEDLAB_EPOCHS_H

#include "epoch_tsss.h"

#define EPOCH(verb, ...) tsss_##verb(__VA_ARGS__)

#endif
