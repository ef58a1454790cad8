//! Flags of tritonserver that can mean nothing here, so that a manifest that has them still starts this server. Their values
//! are not looked at, and those that are given are named once in the log.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Of native plug-ins, of memory pools and devices that are managed otherwise, and of front ends and trace files that there
/// are none of.
const MEANINGLESS: [&str; 32] = [
    "allow-gpu-metrics",
    "allow-sagemaker",
    "allow-vertex-ai",
    "backend-directory",
    "buffer-manager-thread-count",
    "cache-directory",
    "cuda-memory-pool-byte-size",
    "cuda-virtual-address-size",
    "enable-peer-access",
    "grpc-http2-max-ping-strikes",
    "grpc-http2-max-pings-without-data",
    "grpc-http2-min-recv-ping-interval-without-data",
    "grpc-infer-allocation-pool-size",
    "grpc-infer-thread-count",
    "grpc-keepalive-permit-without-calls",
    "grpc-max-response-pool-size",
    "host-policy",
    "min-supported-compute-capability",
    "model-load-gpu-limit",
    "model-namespacing",
    "pinned-memory-pool-byte-size",
    "repoagent-directory",
    "reuse-grpc-port",
    "reuse-http-port",
    "sagemaker-port",
    "sagemaker-safe-port-range",
    "sagemaker-thread-count",
    "vertex-ai-default-model",
    "vertex-ai-port",
    "vertex-ai-thread-count",
    "tensorflow-version",
    "trace-file",
];

/// The flags without effect that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignArgs {
    /// Their names.
    pub meaningless: Vec<&'static str>,
}

impl ForeignArgs {
    /// Names each flag once in the log.
    pub fn report(&self) {
        if !self.meaningless.is_empty() {
            tracing::warn!(flags = flags(&self.meaningless), "accepted and ignored: they can mean nothing here");
        }
    }
}

fn flags(names: &[&str]) -> String {
    names.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(" ")
}

impl Args for ForeignArgs {
    fn augment_args(command: Command) -> Command {
        command.args(MEANINGLESS.into_iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(name: &'static str) -> Arg {
    Arg::new(name).long(name).hide(true).action(ArgAction::Append).allow_negative_numbers(true)
}

impl FromArgMatches for ForeignArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &&str| matches.contains_id(name);
        Ok(Self { meaningless: MEANINGLESS.into_iter().filter(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<ForeignArgs, clap::Error> {
        let command = ForeignArgs::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from(std::iter::once(&"serve").chain(arguments))?;
        ForeignArgs::from_arg_matches(&matches)
    }

    #[test]
    fn flags_of_triton_are_taken_and_named() {
        let given = parse(&[
            "--backend-directory=/opt/tritonserver/backends",
            "--pinned-memory-pool-byte-size",
            "268435456",
            "--cuda-memory-pool-byte-size=0:67108864",
            "--cuda-memory-pool-byte-size=1:67108864",
            "--trace-file=/tmp/trace.json",
        ]);
        let given = given.expect("all are flags of Triton");
        assert_eq!(
            given.meaningless,
            ["backend-directory", "cuda-memory-pool-byte-size", "pinned-memory-pool-byte-size", "trace-file"]
        );
        assert_eq!(parse(&[]).expect("none"), ForeignArgs::default());
    }

    #[test]
    fn a_mistyped_flag_is_no_flag_of_triton() {
        assert!(parse(&["--backend-dirctory=x"]).is_err());
    }
}
