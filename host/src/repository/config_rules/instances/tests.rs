use super::super::tests::{accepted, refused, warned};

fn groups(text: &str) -> Vec<(String, usize)> {
    accepted(text).instance_groups.into_iter().map(|group| (group.name, group.count.get())).collect()
}

#[test]
fn groups_have_tritons_names_and_one_instance_where_nothing_is_said() {
    let cases: [(&str, &[(&str, usize)]); 6] = [
        ("", &[("m", 1)]),
        ("instance_group { }", &[("m_0", 1)]),
        ("instance_group [ { count: 2 kind: KIND_CPU }, { count: 3 kind: KIND_MODEL } ]", &[("m_0", 2), ("m_1", 3)]),
        ("instance_group [ { name: \"fast\" count: 2 }, { count: 1 } ]", &[("fast", 2), ("m_1", 1)]),
        ("instance_group { kind: KIND_AUTO count: 0 }", &[("m_0", 1)]),
        ("instance_group { kind: 2 }", &[("m_0", 1)]),
    ];
    for (text, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(groups(text), expected, "{text}");
    }
    assert_eq!(accepted("instance_group [ { count: 2 }, { count: 3 } ]").instance_count().get(), 5);
}

#[test]
fn devices_and_counts_that_cannot_be_had_are_refused() {
    const NO_GPU: &str = "has kind KIND_GPU but no GPUs are available (fix: write kind: KIND_CPU and leave gpus out)";
    const CPU_GPUS: &str = "has kind KIND_CPU but specifies one or more GPUs (fix: leave gpus out)";
    let cases = [
        (
            "instance_group [ { }, { name: \"g\" kind: KIND_GPU } ]",
            format!("1:35: instance_group[1].kind: instance group g of model m {NO_GPU}"),
        ),
        (
            "instance_group { kind: KIND_GPU gpus: [ 0, 1 ] }",
            format!("1:18: instance_group[0].kind: instance group m_0 of model m {NO_GPU}"),
        ),
        (
            "instance_group { gpus: [ 0 ] }",
            format!("1:18: instance_group[0].gpus: instance group m_0 of model m {CPU_GPUS}"),
        ),
        (
            "instance_group { kind: KIND_CPU gpus: 0 }",
            format!("1:33: instance_group[0].gpus: instance group m_0 of model m {CPU_GPUS}"),
        ),
        (
            "instance_group { kind: KIND_MODEL gpus: 0 }",
            "1:35: instance_group[0].gpus: instance group m_0 of model m has kind KIND_MODEL but specifies one or more GPUs (fix: leave gpus out)".to_owned(),
        ),
        (
            "instance_group { kind: 7 }",
            "1:18: instance_group[0].kind: 7 is not a kind of instance group (fix: write kind: KIND_CPU and leave gpus out)".to_owned(),
        ),
        (
            "instance_group { count: -2 }",
            "1:18: instance_group[0].count: instance group m_0 of model m has count -2; it must be from 1 to 1024 (fix: write count: 1)".to_owned(),
        ),
        (
            "instance_group { count: 1000 } instance_group { count: 25 }",
            "1:1: instance_group: 1025 instances in all; a model version has at most 1024".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        refused(text, &[&expected]);
    }
}

#[test]
fn a_resource_is_the_servers_or_a_devices_and_not_both() {
    let expected = "Resource \"R\" is present as both global and device-specific resource in the model configuration. (fix: \
                    write global: true in both places, or in none)";
    refused(
        "instance_group { rate_limiter { resources [ { name: \"R\" count: 1 }, { name: \"R\" global: true count: 1 } ] } }",
        &[&format!("1:18: instance_group[0].rate_limiter: {expected}")],
    );
    refused(
        "instance_group { rate_limiter { resources { name: \"R\" count: 1 } } }\n\
         instance_group { rate_limiter { resources { name: \"R\" global: true count: 1 } } }",
        &[&format!("2:18: instance_group[1].rate_limiter: {expected}")],
    );
}

#[test]
fn what_is_about_other_devices_has_no_effect() {
    warned(
        "instance_group { passive: true profile: \"0\" host_policy: \"p\" secondary_devices { kind: KIND_NVDLA } }",
        &[
            "1:18: accepted and ignored: instance_group.host_policy, instance_group.passive, instance_group.profile, instance_group.secondary_devices",
        ],
    );
}
