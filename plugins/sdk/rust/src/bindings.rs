//! What wit-bindgen makes of the contract in `wit/`. Plugins use the names that the crate's root re-exports.

#![allow(missing_docs, unreachable_pub, unsafe_code, unused_qualifications, clippy::all)]

wit_bindgen::generate!({
    path: "../../../wit",
    world: "adapter-plugin",
    pub_export_macro: true,
    export_macro_name: "export_adapter",
    default_bindings_module: "airlock_plugin::bindings",
    additional_derives: [PartialEq],
    generate_all,
});
