/* A license with which no kernel takes a scheduler. */
#define LICENSE "MIT"
#include "lab.h"
SCHEDULER
