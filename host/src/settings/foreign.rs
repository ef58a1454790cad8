//! Flags of tritonserver that have no effect here, so that a manifest that has them still starts this server: those of
//! parts that are not served yet, whose values are looked at, and those that can mean nothing here, whose are not.
//! Each that is given is named once in the log.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Flags of parts that are not served yet, with the shape of their values.
const LATER: [(&str, Shape); 7] = [
    ("allow-client-shm", Shape::Switch),
    ("allow-cpu-metrics", Shape::Switch),
    ("metrics-config", Shape::Pair('=')),
    ("metrics-interval-ms", Shape::Number),
    ("trace-file", Shape::Text),
    ("cache-config", Shape::Pair('=')),
    ("response-cache-byte-size", Shape::Number),
];

/// Flags that can mean nothing here: of native plug-ins, of memory pools and devices that are managed otherwise, and of
/// front ends that are not served.
const MEANINGLESS: [&str; 31] = [
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
];

/// What a value has to look like.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Text,
    Switch,
    Number,
    /// Two texts with this between them.
    Pair(char),
}

impl Shape {
    fn check(self, text: &str) -> Result<String, String> {
        let fits = match self {
            Self::Text => true,
            Self::Switch => matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "1" | "0"),
            Self::Number => text.parse::<f64>().is_ok_and(|number| number >= -1.0),
            Self::Pair(between) => is_pair(text, between),
        };
        if fits { Ok(text.to_owned()) } else { Err(format!("it must be {}", self.name())) }
    }

    fn name(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Pair(between) => format!("two texts with '{between}' between them"),
        }
    }
}

fn is_pair(text: &str, between: char) -> bool {
    text.split_once(between).is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
}

/// The flags without effect that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignArgs {
    /// Of parts that are not served yet.
    pub later: Vec<&'static str>,
    /// Of what can mean nothing here.
    pub meaningless: Vec<&'static str>,
}

impl ForeignArgs {
    /// Names each flag once in the log.
    pub fn report(&self) {
        if !self.later.is_empty() {
            let flags = flags(&self.later);
            tracing::warn!(flags, "accepted; they have an effect once what they are about is served");
        }
        if !self.meaningless.is_empty() {
            tracing::warn!(flags = flags(&self.meaningless), "accepted and ignored: they can mean nothing here");
        }
    }
}

fn flags(names: &[&str]) -> String {
    names.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(" ")
}

impl Args for ForeignArgs {
    fn augment_args(mut command: Command) -> Command {
        for (name, shape) in LATER {
            let parser = move |text: &str| shape.check(text);
            command = command.arg(argument(name).value_parser(parser));
        }
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
        let later = LATER.iter().map(|(name, _)| *name).filter(given).collect();
        Ok(Self { later, meaningless: MEANINGLESS.into_iter().filter(given).collect() })
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
            "--metrics-interval-ms=500.5",
            "--allow-client-shm=True",
        ]);
        let given = given.expect("all are flags of Triton");
        assert_eq!(given.later, ["allow-client-shm", "metrics-interval-ms", "trace-file"]);
        assert_eq!(
            given.meaningless,
            ["backend-directory", "cuda-memory-pool-byte-size", "pinned-memory-pool-byte-size"]
        );
        assert_eq!(parse(&[]).expect("none"), ForeignArgs::default());
    }

    #[test]
    fn values_of_what_will_be_served_are_looked_at() {
        for (argument, expected) in [
            ("--allow-client-shm=maybe", "it must be true or false"),
            ("--metrics-interval-ms=often", "it must be a number"),
            ("--cache-config=local", "it must be two texts with '=' between them"),
        ] {
            let error = parse(&[argument]).expect_err("refused").to_string();
            assert!(error.contains(expected), "{argument}: {error}");
        }
    }

    #[test]
    fn a_mistyped_flag_is_no_flag_of_triton() {
        assert!(parse(&["--backend-dirctory=x"]).is_err());
    }
}
