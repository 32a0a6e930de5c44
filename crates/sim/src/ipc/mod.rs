//! Kernel objects that tasks wait on.
