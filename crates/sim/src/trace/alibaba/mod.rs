//! Alibaba's public GPU traces: PAI's tables of 2020, Kubernetes pods of 2023, inference instances of 2025, and spot
//! jobs of 2026. What they have in common is how a worker's demand is written.

mod instances;
mod pods;
mod spot;
mod tasks;

use trainyard_sched::model::GPU;

pub(crate) use instances::FORMAT as INSTANCES;
pub(crate) use pods::FORMAT as PODS;
pub(crate) use spot::FORMAT as SPOT;
pub(crate) use tasks::FORMAT as TASKS;

use super::fields::{GPU_LIMIT, MOST_BYTES, MOST_CPUS, Problem, number_within};

const BYTES_PER_MIB: f64 = 1_048_576.0;
const BYTES_PER_GIB: f64 = 1_073_741_824.0;

/// Thousandths of devices, written in a unit of which `per_device` make one. A worker has a part of one device or
/// whole ones.
fn gpu_milli(field: &str, value: &str, per_device: f64) -> Result<u64, Problem> {
    let amount = number_within(field, value, 0.0, GPU_LIMIT * per_device)?;
    let milli = (amount / per_device * GPU as f64).round() as u64;
    if amount > 0.0 && milli == 0 {
        return Err(Problem::new(format!("{field} is less than a thousandth of a device"), field, value));
    }
    if milli > GPU && !milli.is_multiple_of(GPU) {
        return Err(Problem::new(
            format!("{field} is neither a part of one device nor whole ones"),
            field,
            value,
        ));
    }
    Ok(milli)
}

/// Thousandths of CPU cores, written in a unit of which `per_core` make one.
fn cpu_milli(field: &str, value: &str, per_core: f64) -> Result<u64, Problem> {
    let amount = number_within(field, value, 0.0, MOST_CPUS * per_core)?;
    Ok((amount / per_core * GPU as f64).round() as u64)
}

/// Bytes, written in a unit of so many.
fn memory_bytes(field: &str, value: &str, unit: f64) -> Result<u64, Problem> {
    let amount = number_within(field, value, 0.0, MOST_BYTES / unit)?;
    Ok((amount * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_device_stays_half_a_device() {
        assert_eq!(gpu_milli("plan_gpu", "50.0", 100.0), Ok(500));
        assert_eq!(gpu_milli("plan_gpu", "800", 100.0), Ok(8000));
        assert_eq!(gpu_milli("plan_gpu", "0", 100.0), Ok(0));
        for odd in ["150", "-1", "0.01", "1e309", "many", ""] {
            assert!(gpu_milli("plan_gpu", odd, 100.0).is_err(), "{odd}");
        }
        assert_eq!(cpu_milli("plan_cpu", "600.0", 100.0), Ok(6000));
        assert_eq!(memory_bytes("plan_mem", "29.296875", BYTES_PER_GIB), Ok(30_000 << 20));
    }
}
