/* One queue, first in, first out. */
#include "lab.h"
SCHEDULER
