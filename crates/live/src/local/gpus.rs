//! The NVIDIA GPUs of this machine, as its driver tells them (NVML). The library comes with the driver and is looked for when
//! it is asked; where there is none, there are no GPUs.

use std::ffi::OsStr;
use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// What the library is called: the name that drivers install first, which containers often have alone.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number, in the order of the bus. CUDA counts in the same order if `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.
    pub index: u32,
    /// Its type, as clusters call types: `h200`, `a100-sxm4-80gb`.
    pub gpu_type: String,
    /// Its memory in bytes, where the driver says.
    pub memory_bytes: Option<u64>,
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus {
    /// The GPUs that jobs can be given.
    pub found: Vec<Gpu>,
    /// Why others cannot be given, in a sentence each.
    pub passed_over: Vec<String>,
}

/// Why the GPUs of a machine are not known.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// The driver's library that was named cannot be loaded.
    #[error("{library}: {source}; name the driver's libnvidia-ml.so.1")]
    Library {
        /// Its path.
        library: String,
        /// Why not.
        source: NvmlError,
    },
    /// The driver is there and does not answer.
    #[error("the NVIDIA driver does not say which GPUs there are: {0}; does nvidia-smi work?")]
    Driver(#[from] NvmlError),
}

impl Gpus {
    /// Asks the driver, through this library if one is named.
    pub fn find(library: Option<&Path>) -> Result<Self, GpuError> {
        match library {
            Some(path) => {
                let fail = |source| GpuError::Library { library: path.display().to_string(), source };
                Self::ask(&open(path.as_os_str()).map_err(fail)?)
            }
            None => {
                for name in LIBRARIES {
                    match open(name.as_ref()) {
                        Ok(driver) => return Self::ask(&driver),
                        Err(NvmlError::LibloadingError(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(Self::default())
            }
        }
    }

    fn ask(driver: &Nvml) -> Result<Self, GpuError> {
        let mut all = Self::default();
        for index in 0..driver.device_count()? {
            // One that is broken does not hide the others.
            match look(driver, index) {
                Ok(Some(gpu)) => all.found.push(gpu),
                Ok(None) => all
                    .passed_over
                    .push(format!("GPU {index} is cut into MIG instances, which jobs cannot be given")),
                Err(error) => all.passed_over.push(format!("GPU {index} does not answer: {error}")),
            }
        }
        Ok(all)
    }
}

fn open(library: &OsStr) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(library).init()
}

/// One GPU; none if it is cut into instances.
fn look(driver: &Nvml, index: u32) -> Result<Option<Gpu>, NvmlError> {
    const MIG_ENABLED: u32 = 1;
    let device = driver.device_by_index(index)?;
    // Those that cannot be cut say so by an error.
    if device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED) {
        return Ok(None);
    }
    let memory_bytes = device.memory_info().ok().map(|memory| memory.total);
    Ok(Some(Gpu { index, gpu_type: type_of(&device.name()?), memory_bytes }))
}

/// A driver's name as clusters call types: `NVIDIA A100-SXM4-80GB` is `a100-sxm4-80gb`, `Tesla V100-PCIE-16GB` is
/// `v100-pcie-16gb`, `NVIDIA GeForce RTX 3090` is `rtx-3090`.
fn type_of(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !["nvidia", "tesla", "geforce"].contains(word)).collect();
    if words.is_empty() { "gpu".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_become_types() {
        let names = [
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
            ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
            ("NVIDIA GeForce RTX 3090", "rtx-3090"),
            ("NVIDIA", "gpu"),
        ];
        for (name, expected) in names {
            assert_eq!(type_of(name), expected);
        }
    }

    #[test]
    fn a_library_that_is_none_is_named() {
        let error = Gpus::find(Some(Path::new("/nowhere/libnvidia-ml.so.1"))).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/libnvidia-ml.so.1: "), "{error}");
    }
}
