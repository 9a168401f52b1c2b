//! The reference as a device: the model in f32, without tile code and without a clock.

use crate::device::{Device, DeviceError, Program};
use crate::report::RunReport;
use ipu_interp::graph;
use ipu_interp::host::{HostArray, Parameters};
use ipu_program::graph::Graph;

/// Executes the model graph in f32 and rounds the outputs to their type in the model.
#[derive(Debug, Default)]
pub struct ReferenceDevice {
    graph: Option<Graph>,
    parameters: Option<Parameters>,
}

impl ReferenceDevice {
    const NAME: &'static str = "reference";

    /// A device without a program.
    pub fn new() -> Self {
        ReferenceDevice::default()
    }
}

impl Device for ReferenceDevice {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn load(&mut self, program: Program<'_>) -> Result<(), DeviceError> {
        let graph = program.graph.ok_or(DeviceError::Unsuitable {
            device: Self::NAME,
            needs: "the model, which a package does not contain: give it the .mlir file",
        })?;
        self.graph = Some(graph.clone());
        self.parameters = None;
        Ok(())
    }

    fn initialize(&mut self, parameters: &Parameters) -> Result<(), DeviceError> {
        self.parameters = Some(parameters.clone());
        Ok(())
    }

    fn run(&mut self, inputs: &[HostArray]) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        let (Some(graph), Some(parameters)) = (&self.graph, &self.parameters) else {
            return Err(DeviceError::Order {
                device: Self::NAME,
                call: "run",
                missing: "load and initialize",
            });
        };
        let outputs = graph::run(graph, inputs, parameters)?;
        let outputs = outputs
            .iter()
            .zip(&graph.outputs)
            .enumerate()
            .map(|(i, (array, &id))| {
                let rounded = array.to_element(graph.ty(id).element);
                rounded.map_err(|error| DeviceError::Host {
                    binding: format!("output {i}"),
                    error,
                })
            })
            .collect::<Result<_, _>>()?;
        let report = RunReport {
            device: Self::NAME.to_owned(),
            ..RunReport::default()
        };
        Ok((outputs, report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::graph::OpKind;
    use ipu_program::types::{ElementType, TensorType};

    #[test]
    fn outputs_have_the_type_of_the_model() {
        let ty = TensorType::new([2], ElementType::F16);
        let mut graph = Graph {
            name: "main".into(),
            ..Graph::default()
        };
        let x = graph.add_value(ty.clone());
        graph.inputs.push(x);
        let y = graph.add_op(OpKind::RELU, vec![x], ty.clone(), "m.mlir:1:1".into());
        graph.outputs.push(y);
        let mut device = ReferenceDevice::new();
        let input = HostArray::new(ty.clone(), vec![-1.0, 0.1]).unwrap();
        let order = device
            .run(std::slice::from_ref(&input))
            .unwrap_err()
            .to_string();
        assert_eq!(
            order,
            "device 'reference' was asked to run before load and initialize"
        );
        let e = device.load(Program::default()).unwrap_err().to_string();
        assert!(e.starts_with("device 'reference' needs the model"), "{e}");
        device
            .load(Program {
                graph: Some(&graph),
                ..Program::default()
            })
            .unwrap();
        device.initialize(&Parameters::new()).unwrap();
        let (outputs, report) = device.run(std::slice::from_ref(&input)).unwrap();
        assert_eq!(
            (outputs[0].ty(), outputs[0].values()),
            (&ty, &[0.0, input.values()[1]][..])
        );
        assert_eq!(report.simulated, None);
    }
}
