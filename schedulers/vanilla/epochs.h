/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vanilla/epochs.h - the epochs of the profile: those of 2.4, or of 2.5.2.
 */
#ifndef SCHEDLAB_EPOCHS_H
#define SCHEDLAB_EPOCHS_H

#include "epoch_2_4.h"
#include "epoch_tsss.h"

#define TSSS (profile == PROFILE_TSSS)
#define EPOCH(verb, ...) (TSSS ? tsss_##verb(__VA_ARGS__) : v2_4_##verb(__VA_ARGS__))

#endif
