//! `--kernel` with `--vm`: the kernel that a VM boots.

use crate::failure::Failure;
use crate::machine::kernels::is_path;
use schedlab_base::KernelPreset;
use schedlab_live::kernel_image::{self, KernelImage, KernelName};
use std::path::{Path, PathBuf};

/// The kernel of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmKernel {
    /// The newest one that the distribution offers, or that was fetched before.
    Newest,
    /// A version or a release.
    Named(KernelName),
    /// An image of the user's.
    Image(PathBuf),
}

impl VmKernel {
    /// What `--kernel` names. Names come first, so that no file of the working folder changes what they mean: `./6.18` is a file.
    ///
    /// # Errors
    /// A text that is neither a name nor the path of something.
    pub fn new(given: Option<&Path>) -> Result<VmKernel, Failure> {
        let Some(path) = given else { return Ok(VmKernel::Newest) };
        let refused = |why: String| Failure::usage(format!("--kernel {}: {why}", path.display()));
        let text = path.to_str().unwrap_or_default();
        match KernelName::parse(text).map_err(refused)? {
            Some(name) => Ok(VmKernel::Named(name)),
            None if is_path(path) || path.exists() => Ok(VmKernel::Image(path.to_path_buf())),
            None if KernelPreset::named(text).is_ok() => Err(refused(
                "the simulator alone has it by name, since its packages are not Debian's or Ubuntu's; give its image's path".into(),
            )),
            None => Err(refused(KernelName::unknown(text))),
        }
    }

    /// The image, fetched where the cache has none.
    pub fn image(&self, progress: &mut dyn FnMut(&str)) -> Result<KernelImage, Failure> {
        Ok(match self {
            VmKernel::Newest => kernel_image::find_or_fetch(progress)?,
            VmKernel::Named(name) => kernel_image::find_or_fetch_named(name, progress)?,
            VmKernel::Image(path) => kernel_image::from_path(path)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vms_kernel_is_a_name_or_a_path() {
        let of = |text: &str| VmKernel::new(Some(Path::new(text)));
        assert_eq!(VmKernel::new(None).unwrap(), VmKernel::Newest);
        for name in ["6.18", "7.3.4", "debian-sid", "ubuntu-25.10"] {
            assert!(
                matches!(of(name).unwrap(), VmKernel::Named(found) if found.to_string() == name),
                "{name}"
            );
        }
        for path in ["./6.18", "/boot/vmlinuz", "dir/none", "."] {
            assert_eq!(of(path).unwrap(), VmKernel::Image(path.into()), "{path}");
        }
        for (text, why) in [
            ("6.8", "--kernel 6.8: sched_ext came with Linux 6.12"),
            ("7", "two or three numbers"),
            ("fedora-43", "the simulator alone has it by name"),
            ("debian-31", "did you mean 'debian-13'?"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.text.contains(why), "{}", error.text);
        }
    }
}
