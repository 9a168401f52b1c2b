//! What every device does.

use crate::report::RunReport;
use crate::simulator::RunObserver;
use ipu_image::package::{HostCall, Package};
use ipu_interp::graph::GraphError;
use ipu_interp::host::{HostArray, HostError, Parameters, shape};
use ipu_interp::tile::TileError;
use ipu_program::graph::Graph;
use ipu_program::tile::TileProgram;
use ipu_program::types::TensorType;

/// What a device is given to run; each takes the form that it needs.
#[derive(Clone, Copy, Default)]
pub struct Program<'a> {
    /// Code for the tiles. Checked: it comes from [`Package::from_bytes`] or passed
    /// [`Package::check`].
    pub package: Option<&'a Package>,
    /// The model.
    pub graph: Option<&'a Graph>,
    /// The tile program, from tiling on; neither schedule nor addresses are needed.
    pub tiles: Option<&'a TileProgram>,
}

/// A device.
pub trait Device {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Loads a program and starts it, up to the point where it waits for its parameters.
    ///
    /// # Errors
    /// The program lacks the form that the device needs, or the device fails.
    fn load(&mut self, program: Program<'_>) -> Result<(), DeviceError>;

    /// Writes parameters and constants; once after each load.
    ///
    /// # Errors
    /// A parameter is missing or has another shape, or the device fails.
    fn initialize(&mut self, parameters: &Parameters) -> Result<(), DeviceError>;

    /// Writes inputs, runs, and reads outputs in the model's element types. Any number of times
    /// after `initialize`.
    ///
    /// # Errors
    /// An input is missing or has another shape, or the device fails.
    fn run(&mut self, inputs: &[HostArray]) -> Result<(Vec<HostArray>, RunReport), DeviceError>;

    /// [`Device::run`] under the eyes of an observer of tile memory; results and clocks are the
    /// same. A device without such memory does not call it.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn run_observed(
        &mut self,
        inputs: &[HostArray],
        _observer: &mut dyn RunObserver,
    ) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        self.run(inputs)
    }
}

/// A program that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A program without the form that the device needs.
    #[error("device '{device}' needs {needs}")]
    Unsuitable {
        /// Device.
        device: &'static str,
        /// The form.
        needs: &'static str,
    },
    /// Calls in another order than load, initialize, run.
    #[error("device '{device}' was asked to {call} before {missing}")]
    Order {
        /// Device.
        device: &'static str,
        /// The call.
        call: &'static str,
        /// What must come first.
        missing: &'static str,
    },
    /// A parameter that the weights lack.
    #[error("parameter '{name}' is missing; expected {ty} in the weights")]
    MissingParameter {
        /// Key.
        name: String,
        /// Type in the model.
        ty: TensorType,
    },
    /// A wrong number of inputs.
    #[error("function '{function}' takes {expected} inputs, found {found}")]
    InputCount {
        /// Function.
        function: String,
        /// Arguments.
        expected: usize,
        /// Arrays given.
        found: usize,
    },
    /// A breakpoint at a name that the package does not have.
    #[error("no code symbol '{name}' in the package; it has: {}", known.join(", "))]
    MissingSymbol {
        /// The name.
        name: String,
        /// Its code symbols.
        known: Vec<String>,
    },
    /// Data of another shape than the model says.
    #[error("{subject}: expected shape {}, found {}", shape(.expected), shape(.found))]
    Shape {
        /// Input or parameter.
        subject: String,
        /// Shape in the model.
        expected: Vec<u32>,
        /// Shape found.
        found: Vec<u32>,
    },
    /// Host data that does not fit its buffer.
    #[error("binding '{binding}': {error}")]
    Host {
        /// Symbol of the buffer.
        binding: String,
        /// Why.
        error: HostError,
    },
    /// The reference refuses the model or its data.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The tile program cannot be executed.
    #[error(transparent)]
    Tile(#[from] TileError),
    /// The chip failed.
    #[error("{action}: {error}")]
    Machine {
        /// What it was doing.
        action: String,
        /// Why.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The program ended instead of waiting for the host.
    #[error("the program ended at cycle {cycle}, expected an external sync for {expected:?}")]
    Ended {
        /// Clock of its end.
        cycle: u64,
        /// The next host call.
        expected: HostCall,
    },
}

pub(crate) fn check_shape(
    subject: impl FnOnce() -> String,
    ty: &TensorType,
    array: &HostArray,
) -> Result<(), DeviceError> {
    if ty.shape == array.shape() {
        return Ok(());
    }
    Err(DeviceError::Shape {
        subject: subject(),
        expected: ty.shape.clone(),
        found: array.shape().to_vec(),
    })
}
