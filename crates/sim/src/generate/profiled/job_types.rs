//! The 26 types of jobs of Gavel: a model with a batch size (its job table, in the order in which types are drawn).

/// A model with a batch size.
pub(super) struct JobType {
    /// The model.
    pub(super) model: &'static str,
    /// Its batch size, if it has several.
    pub(super) batch: Option<u32>,
    /// Whether it can have several GPUs.
    pub(super) distributed: bool,
}

impl JobType {
    /// Its row in tables of throughputs.
    pub(super) fn name(&self) -> String {
        match self.batch {
            Some(batch) => format!("{} (batch size {batch})", self.model),
            None => self.model.to_owned(),
        }
    }
}

const fn distributed(model: &'static str, batch: u32) -> JobType {
    JobType { model, batch: Some(batch), distributed: true }
}

const fn alone(model: &'static str, batch: Option<u32>) -> JobType {
    JobType { model, batch, distributed: false }
}

pub(super) const RESNET_18: &str = "ResNet-18";
pub(super) const RESNET_50: &str = "ResNet-50";
pub(super) const TRANSFORMER: &str = "Transformer";
pub(super) const LM: &str = "LM";
pub(super) const CYCLE_GAN: &str = "CycleGAN";
const RECOMMENDATION: &str = "Recommendation";

/// All of them.
pub(super) const JOB_TYPES: [JobType; 26] = [
    distributed(RESNET_18, 16),
    distributed(RESNET_18, 32),
    distributed(RESNET_18, 64),
    distributed(RESNET_18, 128),
    distributed(RESNET_18, 256),
    distributed(RESNET_50, 16),
    distributed(RESNET_50, 32),
    distributed(RESNET_50, 64),
    distributed(RESNET_50, 128),
    distributed(TRANSFORMER, 16),
    distributed(TRANSFORMER, 32),
    distributed(TRANSFORMER, 64),
    distributed(TRANSFORMER, 128),
    distributed(TRANSFORMER, 256),
    distributed(LM, 5),
    distributed(LM, 10),
    distributed(LM, 20),
    distributed(LM, 40),
    distributed(LM, 80),
    alone(RECOMMENDATION, Some(512)),
    alone(RECOMMENDATION, Some(1024)),
    alone(RECOMMENDATION, Some(2048)),
    alone(RECOMMENDATION, Some(4096)),
    alone(RECOMMENDATION, Some(8192)),
    alone("A3C", None),
    alone(CYCLE_GAN, None),
];

/// The positions of the types of a model, in order.
pub(super) fn of_model(model: &str) -> Vec<usize> {
    (0..JOB_TYPES.len()).filter(|i| JOB_TYPES[*i].model == model).collect()
}
