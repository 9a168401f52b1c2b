//! The tile level as a device: shards, kernels by their meaning and copies, without instructions
//! and without a clock.

use crate::device::{Device, DeviceError, Program};
use crate::report::RunReport;
use ipu_interp::host::{HostArray, Parameters};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_program::kernels::Kernels;
use ipu_program::tile::TileProgram;

/// Interprets the tile program at storage precision. Memory that nothing wrote is NaN.
#[derive(Debug, Default)]
pub struct TileDevice {
    program: Option<TileProgram>,
    parameters: Option<Parameters>,
}

impl TileDevice {
    const NAME: &'static str = "tile";

    /// A device without a program.
    pub fn new() -> Self {
        TileDevice::default()
    }
}

impl Device for TileDevice {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn load(&mut self, program: Program<'_>) -> Result<(), DeviceError> {
        let tiles = program.tiles.ok_or(DeviceError::Unsuitable {
            device: Self::NAME,
            needs: "the tile program, which a package does not contain: give it the .mlir file",
        })?;
        self.program = Some(tiles.clone());
        self.parameters = None;
        Ok(())
    }

    fn initialize(&mut self, parameters: &Parameters) -> Result<(), DeviceError> {
        self.parameters = Some(parameters.clone());
        Ok(())
    }

    fn run(&mut self, inputs: &[HostArray]) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        let (Some(program), Some(parameters)) = (&self.program, &self.parameters) else {
            return Err(DeviceError::Order {
                device: Self::NAME,
                call: "run",
                missing: "load and initialize",
            });
        };
        let mut interpreter = Interpreter::new(program, Kernels::builtin(), Fill::Poison);
        interpreter.initialize(parameters)?;
        let outputs = interpreter.run(inputs)?;
        let report = RunReport {
            device: Self::NAME.to_owned(),
            ..RunReport::default()
        };
        Ok((outputs, report))
    }
}
