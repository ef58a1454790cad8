use model::{RateLimit, RateScope};

use super::{accepted, refused};

/// Priority and resources of an instance.
type Shown<'a> = (u32, Vec<(&'a str, RateScope, u32)>);

fn shown(limit: &RateLimit) -> Shown<'_> {
    let resources = limit.resources.iter().map(|resource| (&*resource.name, resource.scope, resource.count.get()));
    (limit.priority.get(), resources.collect())
}

#[test]
fn every_instance_has_the_limit_of_its_group() {
    assert_eq!(accepted("instance_group { count: 2 }").rate_limits(), []);
    let config = accepted(
        "instance_group [
           { count: 2 rate_limiter { resources [ { name: \"R1\" count: 4 }, { name: \"R2\" global: true count: 1 } ] priority: 2 } },
           { },
           { rate_limiter { } } ]",
    );
    let first = (2, vec![("R1", RateScope::Device, 4), ("R2", RateScope::Global, 1)]);
    assert_eq!(
        config.rate_limits().iter().map(shown).collect::<Vec<_>>(),
        [first.clone(), first, (1, vec![]), (1, vec![])]
    );
    assert_eq!(config.instance_count().get(), config.rate_limits().len());
}

#[test]
fn resources_without_name_or_amount_and_named_twice_are_refused() {
    let limiter = |resources: &str| format!("instance_group {{ rate_limiter {{ resources [ {resources} ] }} }}");
    let cases = [
        (
            limiter("{ count: 1 }"),
            "1:45: instance_group[0].rate_limiter.resources[0].name: a resource must have a name (fix: write name: \"R1\", say)",
        ),
        (
            limiter("{ name: \"R\" }"),
            "1:45: instance_group[0].rate_limiter.resources[0].count: resource 'R' has count 0; it must be at least 1 (fix: write count: 1, or remove the resource)",
        ),
        (
            limiter("{ name: \"R\" count: 1 }, { name: \"R\" count: 2 }"),
            "1:71: instance_group[0].rate_limiter.resources[1].name: resource 'R' is named twice in one group (fix: name it once, with the sum of both counts)",
        ),
        (
            limiter(&vec!["{ name: \"R\" count: 1 }"; 65].join(", ")),
            "1:33: instance_group[0].rate_limiter.resources: 65 resources; a group has at most 64",
        ),
    ];
    for (text, expected) in cases {
        let problems = super::parse(&text).expect_err(&text);
        assert_eq!(problems[0].to_string()[2..], *expected, "{text}");
    }
    let many = "instance_group { count: 1000000000 rate_limiter { resources { name: \"R\" count: 1 } } }";
    refused(many, &["1:1: instance_group: 1000000000 instances in all; a model version has at most 1024"]);
}
