//! Tells the crate where the BPF headers of the bundled libbpf are, so that they can be embedded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("DEP_BPF_INCLUDE") {
        Ok(include) => println!("cargo:rustc-env=SCHEDLAB_LIBBPF_INCLUDE={include}/bpf"),
        Err(_) => println!("cargo:warning=libbpf-sys did not say where its headers are"),
    }
}
