//! `instance_group.rate_limiter`: what the instances of a group need in order to run, and their share of the chances.

use std::num::NonZeroU32;

use model::{RateLimit, RateResource, RateScope};

use super::Rules;
use super::block::Block;

/// Most resources of one group.
const RESOURCES_MAX: usize = 64;

/// What each instance of a group needs.
pub(super) fn limit(group: &Block<'_>, rules: &mut Rules<'_, '_>) -> RateLimit {
    let mut limit = RateLimit::default();
    let Some(limiter) = group.block("rate_limiter") else { return limit };
    let priority = u32::try_from(limiter.integer("priority")).ok().and_then(NonZeroU32::new);
    limit.priority = priority.unwrap_or(NonZeroU32::MIN);
    let resources = limiter.blocks("resources");
    if resources.len() > RESOURCES_MAX {
        let message = format!("{} resources; a group has at most {RESOURCES_MAX}", resources.len());
        rules.refuse(&limiter, "resources", message, None);
    }
    for block in &resources {
        let Some(resource) = resource(block, rules) else { continue };
        let is_same = |earlier: &RateResource| earlier.name == resource.name && earlier.scope == resource.scope;
        if limit.resources.iter().any(is_same) {
            let message = format!("resource '{}' is named twice in one group", resource.name);
            rules.refuse(block, "name", message, "name it once, with the sum of both counts".to_owned());
        } else {
            limit.resources.push(resource);
        }
    }
    limit
}

fn resource(block: &Block<'_>, rules: &mut Rules<'_, '_>) -> Option<RateResource> {
    let name = block.text("name");
    if name.is_empty() {
        rules.refuse(block, "name", "a resource must have a name", "write name: \"R1\", say".to_owned());
    }
    let count = u32::try_from(block.integer("count")).ok().and_then(NonZeroU32::new);
    if count.is_none() {
        let message = format!("resource '{name}' has count {}; it must be at least 1", block.integer("count"));
        rules.refuse(block, "count", message, "write count: 1, or remove the resource".to_owned());
    }
    let scope = if block.flag("global") { RateScope::Global } else { RateScope::Device };
    Some(RateResource { name: name.into(), scope, count: count? })
}
