//! What one step of practice follows: the gradients of the critic and of the policy on a batch.

use burn::tensor::{Int, Tensor, TensorData, activation};
use trainyard_sched::policies::dl2::Schema;

use crate::imitate::CLOSED;
use crate::network::{Network, Rows, column};
use crate::replay::{Drawn, Sample};
use crate::shuffle::Shuffle;

/// An old action that has become likelier counts as much more, and no more than this.
const MOST_LIKELIER: f32 = 2.0;

/// The critic's loss, its gradient, and what it takes each state to be worth.
pub(crate) fn worth(
    net: &Network,
    states: &Rows,
    aims: &[f32],
    drawn: &[Drawn],
) -> (f32, Vec<f32>, Vec<f32>) {
    let mut said = Vec::new();
    let count = aims.len() as f32;
    let weights: Vec<f32> = drawn.iter().map(|drawn| 0.5 * drawn.weight / count).collect();
    let (loss, gradient) = net.gradient(states, |out, device| {
        said = out.clone().into_data().try_to_vec::<f32>().expect("numbers are 32-bit floats");
        let off = out.reshape([aims.len()]) - column(aims, device);
        (off.clone() * off * column(&weights, device)).sum()
    });
    (loss, gradient, said)
}

/// What a step learns from, row by row.
pub(crate) struct Batch {
    pub(crate) states: Rows,
    /// What was seen next in the slot; the same again where nothing was.
    pub(crate) after: Rows,
    closed: Rows,
    actions: Vec<i64>,
    likely: Vec<f32>,
}

impl Batch {
    pub(crate) const fn new(schema: Schema) -> Self {
        let (inputs, actions) = (schema.inputs(), schema.actions());
        Self {
            states: Rows::new(inputs),
            after: Rows::new(inputs),
            closed: Rows::new(actions),
            actions: Vec::new(),
            likely: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, sample: &Sample, shuffle: &Shuffle) {
        self.states.push(&shuffle.state(&sample.state));
        self.after.push(&shuffle.state(sample.after.as_ref().unwrap_or(&sample.state)));
        let open = shuffle.open(&sample.open);
        self.closed.values.extend(open.iter().map(|open| if *open { 0.0 } else { CLOSED }));
        self.actions.push(shuffle.action(sample.action as usize) as i64);
        self.likely.push(sample.likely);
    }
}

/// The entropy of what is done, and the gradient of the policy's loss.
pub(crate) fn better(
    net: &Network,
    batch: &Batch,
    gains: &[f32],
    drawn: &[Drawn],
    entropy_weight: f32,
) -> (f32, Vec<f32>) {
    let count = gains.len();
    let mut entropy = 0.0;
    let (_, gradient) = net.gradient(&batch.states, |scores, device| {
        let likely = activation::log_softmax(scores + batch.closed.tensor(device), 1);
        let done = TensorData::new(batch.actions.clone(), [count, 1]);
        let done = Tensor::<2, Int>::from_data(done, device);
        let of_done = likely.clone().gather(1, done).reshape([count]);
        let now: Vec<f32> = of_done.clone().into_data().try_to_vec().expect("numbers are 32-bit floats");
        let weigh = |i: usize| {
            let likelier = (now[i].exp() / batch.likely[i].max(1e-8)).min(MOST_LIKELIER);
            -gains[i] * drawn[i].weight * likelier / count as f32
        };
        let weights: Vec<f32> = (0..count).map(weigh).collect();
        let certain = (likely.clone().exp() * likely).sum();
        entropy = -certain.clone().into_scalar::<f32>() / count as f32;
        let spread = (certain * column(&[entropy_weight / count as f32], device)).sum();
        (of_done * column(&weights, device)).sum() + spread
    });
    (entropy, gradient)
}
