//! "Did you mean": the known name nearest to one that is not known.

pub(crate) use schedlab_workload::did_you_mean;
