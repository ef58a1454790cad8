//! Metric names, in one place.

/// Time of each stage of a request.
pub const STAGE_DURATION: &str = "airlock_stage_duration_seconds";
/// Rows of each batch run.
pub const BATCH_ROWS: &str = "airlock_batch_rows";
/// Requests answered, by outcome.
pub const REQUESTS: &str = "airlock_requests_total";
/// Requests held now, by surface.
pub const IN_FLIGHT: &str = "airlock_requests_in_flight";
/// Requests dropped from a queue, by reason.
pub const QUEUE_DROPS: &str = "airlock_queue_drops_total";
/// Requests waiting in a queue now.
pub const QUEUE_SIZE: &str = "airlock_queue_requests";
/// Most requests that may wait.
pub const QUEUE_LIMIT: &str = "airlock_queue_requests_limit";
/// Whether batches run inline (1) or on the instances' threads (0).
pub const RUNS_INLINE: &str = "airlock_batches_run_inline";
/// Outcomes of swaps: plugins, versions and configurations.
pub const SWAPS: &str = "airlock_swaps_total";
/// Versions loaded by the engine.
pub const ENGINE_LOADS: &str = "airlock_engine_loads_total";
/// The plugin generation that serves.
pub const PLUGIN_GENERATION: &str = "airlock_plugin_generation";
/// Plugin calls that failed, by kind.
pub const PLUGIN_FAILURES: &str = "airlock_plugin_failures_total";
/// Plugin calls, by stage and by the threads they ran on.
pub const PLUGIN_CALLS: &str = "airlock_plugin_calls_total";
/// Plugin output dropped over its limits.
pub const PLUGIN_DROPPED: &str = "airlock_plugin_dropped_total";
/// Warm plugin instances now.
pub const PLUGIN_WARM: &str = "airlock_plugin_instances_warm";
/// Plugin instances made by the generation that serves.
pub const PLUGIN_CREATED: &str = "airlock_plugin_instances_created";
/// Plugin instances alive now, over all models: warm, in use and in verification.
pub const SANDBOX_INSTANCES: &str = "airlock_sandbox_instances";
/// Plugin calls waiting for an instance now.
pub const SANDBOX_WAITING: &str = "airlock_sandbox_calls_waiting";
/// What is taken from the instance pool now, by kind.
pub const SANDBOX_POOL: &str = "airlock_sandbox_pool_in_use";
/// Counters that plugins declare.
pub const PLUGIN_COUNTER: &str = "airlock_plugin_events_total";
/// Histograms that plugins declare.
pub const PLUGIN_OBSERVATION: &str = "airlock_plugin_observation";
/// Limits in force.
pub const LIMIT: &str = "airlock_limit";
/// Releases replaced and not yet freed.
pub const DRAINING: &str = "airlock_releases_draining";
/// Models by state.
pub const MODELS: &str = "airlock_models";
/// Log lines dropped because the reader of standard error did not keep up.
pub const LOG_LINES_DROPPED: &str = "airlock_log_lines_dropped_total";
/// Access log lines dropped because their reader did not keep up.
pub const ACCESS_LOG_LINES_DROPPED: &str = "airlock_access_log_lines_dropped_total";
/// Spans, by what became of them.
pub const TRACE_SPANS: &str = "airlock_trace_spans_total";
/// Build information.
pub const BUILD: &str = "airlock_build_info";
/// Shared memory regions open now.
pub const SHARED_MEMORY_REGIONS: &str = "airlock_shared_memory_regions";
/// Their bytes together.
pub const SHARED_MEMORY_BYTES: &str = "airlock_shared_memory_bytes";
/// Connections open now, by port.
pub const CONNECTIONS: &str = "airlock_connections";
/// Answers of which an output held a NaN or an infinity, by output.
pub const NON_FINITE: &str = "airlock_non_finite_outputs_total";
/// Answers over HTTP, by route and status.
pub const HTTP_ANSWERS: &str = "airlock_http_responses_total";
/// Bytes of bodies read over HTTP, by route.
pub const HTTP_RECEIVED: &str = "airlock_http_request_bytes_total";
/// Bytes of bodies written over HTTP, by route.
pub const HTTP_SENT: &str = "airlock_http_response_bytes_total";
/// Calls that ended over gRPC, by method and code.
pub const GRPC_ANSWERS: &str = "airlock_grpc_responses_total";
/// Bytes of messages read over gRPC, by method.
pub const GRPC_RECEIVED: &str = "airlock_grpc_request_bytes_total";
/// Bytes of messages written over gRPC, by method.
pub const GRPC_SENT: &str = "airlock_grpc_response_bytes_total";
/// KServe's: time of preprocess.
pub const KSERVE_PREPROCESS: &str = "request_preprocess_seconds";
/// KServe's: time of the model, queue included.
pub const KSERVE_PREDICT: &str = "request_predict_seconds";
/// KServe's: time of postprocess.
pub const KSERVE_POSTPROCESS: &str = "request_postprocess_seconds";

/// How much there is of a resource that instances share.
pub const RESOURCE_LIMIT: &str = "airlock_rate_limiter_resource_limit";
/// How much of it is held now.
pub const RESOURCE_IN_USE: &str = "airlock_rate_limiter_resource_in_use";

/// Triton's: requests that were answered.
pub const NV_SUCCESS: &str = "nv_inference_request_success";
/// Triton's: requests that failed, by reason.
pub const NV_FAILURE: &str = "nv_inference_request_failure";
/// Triton's: rows that were answered.
pub const NV_INFERENCES: &str = "nv_inference_count";
/// Triton's: batches that ran.
pub const NV_EXECUTIONS: &str = "nv_inference_exec_count";
/// Triton's: time of requests in the model.
pub const NV_REQUEST_DURATION: &str = "nv_inference_request_duration_us";
/// Triton's: time of requests in the queue.
pub const NV_QUEUE_DURATION: &str = "nv_inference_queue_duration_us";
/// Triton's: time to lay inputs into batches.
pub const NV_INPUT_DURATION: &str = "nv_inference_compute_input_duration_us";
/// Triton's: time of the engine.
pub const NV_INFER_DURATION: &str = "nv_inference_compute_infer_duration_us";
/// Triton's: time to cut outputs.
pub const NV_OUTPUT_DURATION: &str = "nv_inference_compute_output_duration_us";
/// Triton's: requests waiting now.
pub const NV_PENDING: &str = "nv_inference_pending_request_count";
/// Triton's: time that loading the version took.
pub const NV_LOAD_DURATION: &str = "nv_model_load_duration_secs";

/// Bytes that the answers in the response cache take.
pub const RESPONSE_CACHE_BYTES: &str = "airlock_response_cache_bytes";
/// Triton's: answers in the response cache.
pub const NV_CACHE_ENTRIES: &str = "nv_cache_num_entries";
/// Triton's: requests that looked into the response cache.
pub const NV_CACHE_LOOKUPS: &str = "nv_cache_num_lookups";
/// Triton's: requests that found their answer there.
pub const NV_CACHE_HITS: &str = "nv_cache_num_hits";
/// Triton's: requests that did not.
pub const NV_CACHE_MISSES: &str = "nv_cache_num_misses";
/// Triton's: answers that had to make room.
pub const NV_CACHE_EVICTIONS: &str = "nv_cache_num_evictions";
/// Triton's: time spent looking into the response cache.
pub const NV_CACHE_LOOKUP_TIME: &str = "nv_cache_lookup_duration";
/// Triton's: time spent keeping answers.
pub const NV_CACHE_INSERTION_TIME: &str = "nv_cache_insertion_duration";
/// Triton's: how full the response cache is.
pub const NV_CACHE_UTIL: &str = "nv_cache_util";
/// Triton's: requests of a version that found their answer in the response cache.
pub const NV_CACHE_HITS_OF_MODEL: &str = "nv_cache_num_hits_per_model";
/// Triton's: requests of a version that did not.
pub const NV_CACHE_MISSES_OF_MODEL: &str = "nv_cache_num_misses_per_model";
/// Triton's: time spent finding answers of a version.
pub const NV_CACHE_HIT_TIME_OF_MODEL: &str = "nv_cache_hit_duration_per_model";
/// Triton's: time spent not finding, and keeping, answers of a version.
pub const NV_CACHE_MISS_TIME_OF_MODEL: &str = "nv_cache_miss_duration_per_model";
/// Triton's: time to the first response, by buckets.
pub const NV_FIRST_RESPONSE: &str = "nv_inference_first_response_histogram_ms";
/// Triton's proposal: time of requests in the model, by buckets.
pub const NV_REQUEST_HISTOGRAM: &str = "nv_inference_request_duration_histogram_us";
/// Triton's proposal: time of requests in the queue, by buckets.
pub const NV_QUEUE_HISTOGRAM: &str = "nv_inference_queue_duration_histogram_us";
/// Triton's proposal: time to lay inputs into batches, by buckets.
pub const NV_INPUT_HISTOGRAM: &str = "nv_inference_compute_input_duration_histogram_us";
/// Triton's proposal: time of the engine, by buckets.
pub const NV_INFER_HISTOGRAM: &str = "nv_inference_compute_infer_duration_histogram_us";
/// Triton's proposal: time to cut outputs, by buckets.
pub const NV_OUTPUT_HISTOGRAM: &str = "nv_inference_compute_output_duration_histogram_us";
/// Triton's: quantiles of the time of requests in the model.
pub const NV_REQUEST_SUMMARY: &str = "nv_inference_request_summary_us";
/// Triton's: quantiles of the time of requests in the queue.
pub const NV_QUEUE_SUMMARY: &str = "nv_inference_queue_summary_us";
/// Triton's: quantiles of the time to lay inputs into batches.
pub const NV_INPUT_SUMMARY: &str = "nv_inference_compute_input_summary_us";
/// Triton's: quantiles of the time of the engine.
pub const NV_INFER_SUMMARY: &str = "nv_inference_compute_infer_summary_us";
/// Triton's: quantiles of the time to cut outputs.
pub const NV_OUTPUT_SUMMARY: &str = "nv_inference_compute_output_summary_us";
/// Triton's: how busy the system's processors are.
pub const NV_CPU_UTILIZATION: &str = "nv_cpu_utilization";
/// Triton's: the system's memory.
pub const NV_CPU_MEMORY_TOTAL: &str = "nv_cpu_memory_total_bytes";
/// Triton's: the system's memory that is in use.
pub const NV_CPU_MEMORY_USED: &str = "nv_cpu_memory_used_bytes";
