//! Groups of settings, each made of the flags that are about it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use super::bounds::Bounds;
use super::response_cache::response_cache_bytes;
use super::{
    EngineSettings, HeaderPattern, Listen, LoadSettings, ModelControlMode, RateLimitSettings, RequestLimits,
    RestrictedApis, SandboxLimits, ServeArgs,
};
use crate::repository::config_choice::ConfigChoice;

pub(super) fn listen(args: &ServeArgs, problems: &mut Vec<String>) -> Listen {
    let reserved = [("--admin-port", args.admin_port)];
    let address = args.http_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let triton = &args.triton;
    let http = SocketAddr::new(address, args.http_port.unwrap_or(8000));
    let metrics = SocketAddr::new(triton.metrics_address.unwrap_or(address), args.metrics_port.unwrap_or(8002));
    Listen {
        http: triton.allow_http.unwrap_or(true).then_some(http),
        metrics: triton.allow_metrics.unwrap_or(true).then_some(metrics),
        restricted: RestrictedApis::of_http(&triton.http_restricted_api, problems),
        port_file: args.port_file.clone(),
        reserved: reserved.into_iter().filter_map(|(flag, port)| port.map(|port| (flag, port))).collect(),
    }
}

pub(super) fn request_limits(args: &ServeArgs, bounds: &mut Bounds) -> RequestLimits {
    RequestLimits {
        body_bytes_max: bounds.within("http_max_input_size", args.http_max_input_size, 64 << 20, (1, 4 << 30)),
        in_flight_max: bounds.within("max_in_flight", args.max_in_flight, 4096, (1, 1 << 20)),
        connections_max: bounds.within("max_connections", args.max_connections, 8192, (1, 1 << 20)),
        timeout: bounds.millis("request_timeout_ms", args.request_timeout_ms, 30_000, (1, 3_600_000)),
    }
}

pub(super) fn load_settings(args: &ServeArgs, bounds: &mut Bounds, problems: &mut Vec<String>) -> LoadSettings {
    let triton = &args.triton;
    let config_choice = triton.model_config_name.as_deref().map_or(Ok(ConfigChoice::default()), ConfigChoice::named);
    let config_choice = config_choice.unwrap_or_else(|error| {
        problems.push(error.to_string());
        ConfigChoice::default()
    });
    let headroom_mb = args.model_load_headroom_mb;
    let headroom_mb = headroom_mb.map(|mb| bounds.within("model_load_headroom_mb", Some(mb), 0, (0, 1 << 30)));
    LoadSettings {
        config_choice,
        is_strict: triton.disable_auto_complete_config.or(triton.strict_model_config).unwrap_or(false),
        retries: bounds.within("model_load_retry_count", triton.model_load_retry_count, 0, (0, 1_000)),
        headroom_bytes: headroom_mb.map(|mb| (mb as u64) << 20),
        custom_op_libraries: args.custom_op_library.clone(),
        engine: EngineSettings::of(triton, problems),
        rate_limit: RateLimitSettings::of(triton, problems),
        response_cache_bytes: response_cache_bytes(triton, problems),
    }
}

/// The pattern of the headers that become parameters; one that is none is told and does nothing.
pub(super) fn header_pattern(setting: &str, given: Option<&str>, problems: &mut Vec<String>) -> Option<HeaderPattern> {
    HeaderPattern::new(setting, given?).map_err(|problem| problems.push(problem)).ok()
}

/// Triton's seconds count where its mode is asked for.
pub(super) fn rescan_interval(args: &ServeArgs, bounds: &mut Bounds) -> Duration {
    match args.triton.repository_poll_secs {
        Some(seconds) if args.triton.model_control_mode == Some(ModelControlMode::Poll) => {
            Duration::from_secs(bounds.within_u64("repository_poll_secs", Some(seconds), 15, (1, 86_400)))
        }
        _ => bounds.millis("rescan_ms", args.rescan_ms, 5_000, (10, 86_400_000)),
    }
}

pub(super) fn sandbox_limits(args: &ServeArgs, bounds: &mut Bounds, cores: NonZeroUsize) -> SandboxLimits {
    let mut mebibytes = |name, given, default, range| bounds.within(name, given, default, range) << 20;
    let memory_bytes_max = mebibytes("plugin_memory_mb", args.plugin_memory_mb, 1024, (1, 4095));
    let component_bytes_max = mebibytes("plugin_component_mb", args.plugin_component_mb, 64, (1, 1024));
    let cache_bytes_max = mebibytes("plugin_cache_mb", args.plugin_cache_mb, 1024, (1, 1 << 20)) as u64;
    let function_cache_bytes_max =
        mebibytes("plugin_function_cache_mb", args.plugin_function_cache_mb, 512, (0, 1 << 20)) as u64;
    let mut count = |name, given, default, most| {
        // The bound of each is far below.
        u32::try_from(bounds.within(name, given, default, (1, most))).unwrap_or(u32::MAX)
    };
    SandboxLimits {
        instances: count("plugin_instances", args.plugin_instances, 256, 65_536),
        core_instances_max: count("plugin_core_instances", args.plugin_core_instances, 64, 1_024),
        waiting_max: bounds.within("plugin_queue_size", args.plugin_queue_size, 1_024, (0, 1 << 20)),
        memory_bytes_max,
        component_bytes_max,
        cache_bytes_max,
        function_cache_bytes_max,
        threads: bounds.at_least_one("plugin_threads", args.plugin_threads, cores),
    }
}
