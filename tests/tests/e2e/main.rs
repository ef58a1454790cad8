//! End to end: the real binary, real files, real HTTP. One module per topic.

mod bad_input;
mod batches;
mod check;
mod external_data;
mod failed_loads;
mod grpc;
mod history;
mod hostile;
mod identity;
mod isolation;
mod lifecycle;
mod modes;
mod odd_files;
mod padding;
mod pair;
mod plugin_log;
mod refusals;
mod serve;
mod shared_memory;
mod soak;
mod start;
mod statistics;
mod stop;
mod swap;
mod telemetry;
mod triton_flags;
