// A perceptron with one hidden layer learns to tell ten kinds of pictures of 28 x 28 points, as
// those of MNIST are, from LibTorch and tiled_mm.h alone. The pictures are made here: a fixed one
// for each digit, moved by up to two points and under noise.
//
//   mnist_mlp [--small] [--device cpu|cuda]
//
// Ends with 1 if fewer than nine in ten unseen pictures are told.
#include <tiled_mm.h>
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int64_t SIDE = 28, POINTS = SIDE * SIDE, DIGITS = 10, HIDDEN = 256;

struct Pictures {
  at::Tensor points;  // [count, POINTS]
  at::Tensor digits;  // [count]
};

Pictures draw(const at::Tensor& models, int64_t count) {  // models [DIGITS, SIDE, SIDE]
  const at::Tensor digits = torch::randint(DIGITS, {count});
  std::vector<at::Tensor> moved;
  for (int64_t i = 0; i < count; ++i) {
    const auto by = torch::randint(-2, 3, {2});
    moved.push_back(models[digits[i].item<int64_t>()].roll(
        {by[0].item<int64_t>(), by[1].item<int64_t>()}, {0, 1}));
  }
  const at::Tensor noise = torch::randn({count, SIDE, SIDE});
  return {(torch::stack(moved) + noise).view({count, POINTS}), digits};
}

struct Perceptron {
  at::Tensor first, first_bias, second, second_bias;

  explicit Perceptron(at::Device device) {
    const auto parameter = [&](at::IntArrayRef sizes, double scale) {
      return (torch::randn(sizes) * scale).to(device).set_requires_grad(true);
    };
    first = parameter({HIDDEN, POINTS}, 1 / 28.);
    first_bias = parameter({HIDDEN}, 0);
    second = parameter({DIGITS, HIDDEN}, 1 / 16.);
    second_bias = parameter({DIGITS}, 0);
  }

  std::vector<at::Tensor> parameters() const { return {first, first_bias, second, second_bias}; }

  at::Tensor operator()(const at::Tensor& points) const {
    const auto hidden = tiled::linear(points, first, first_bias, {.activation = "relu"});
    return tiled::linear(hidden, second, second_bias);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  at::Device device = torch::cuda::is_available() ? at::kCUDA : at::kCPU;
  bool small = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--small") {
      small = true;
    } else if (arguments[i] == "--device" && i + 1 < arguments.size()) {
      device = at::Device(arguments[++i]);
    } else {
      std::cerr << "usage: mnist_mlp [--small] [--device cpu|cuda]\n";
      return 2;
    }
  }

  torch::manual_seed(0);
  const at::Tensor models = 2 * torch::randn({DIGITS, SIDE, SIDE});
  const Pictures seen = draw(models, small ? 2000 : 20000), unseen = draw(models, 1000);
  const at::Tensor points = seen.points.to(device), digits = seen.digits.to(device);

  const Perceptron network(device);
  torch::optim::SGD optimizer(network.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  constexpr int64_t BATCH = 100;
  for (int epoch = 1; epoch <= (small ? 4 : 8); ++epoch) {
    double sum = 0;
    for (int64_t begin = 0; begin < points.size(0); begin += BATCH) {
      optimizer.zero_grad();
      const at::Tensor loss = torch::nn::functional::cross_entropy(
          network(points.slice(0, begin, begin + BATCH)), digits.slice(0, begin, begin + BATCH));
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    std::cout << "epoch " << epoch << ": loss " << sum * BATCH / points.size(0) << "\n";
  }

  const torch::NoGradGuard no_gradients;
  const at::Tensor told = network(unseen.points.to(device)).argmax(1).cpu() == unseen.digits;
  const double share = told.to(at::kDouble).mean().item<double>();
  std::cout << "of unseen pictures told: " << 100 * share << " %\n";
  return share >= 0.9 ? 0 : 1;
}
