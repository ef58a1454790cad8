//! The host's side of the contract in `wit/`, generated. Values that go into a guest borrow from the host, so a body or
//! a tensor is copied once, straight into the guest's memory.

wasmtime::component::bindgen!({
    path: "../../../wit",
    world: "adapter-plugin",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});
