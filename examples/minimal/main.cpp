// Load a model and answer one question: the whole of it.
#include <phidias/phidias.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: minimal MODEL QUESTION\n";
    return 2;
  }
  auto model = phidias::Model::load(argv[1]);
  if (!model.ok()) {
    std::cerr << model.error().to_string() << "\n";
    return 1;
  }
  auto engine = phidias::Engine::create(*model);
  if (!engine.ok() || !(*model)->tokenizer() || !(*model)->chat_template()) {
    std::cerr << (engine.ok() ? "the model has no tokenizer or chat template"
                              : engine.error().to_string())
              << "\n";
    return 1;
  }
  auto prompt =
      phidias::chat_prompt(*(*model)->tokenizer(), *(*model)->chat_template(), {{"user", argv[2]}});
  if (!prompt.ok()) {
    std::cerr << prompt.error().to_string() << "\n";
    return 1;
  }
  phidias::GenerateRequest request;
  request.prompt = prompt->ids;
  request.max_tokens = 100;
  auto answer = phidias::generate(**engine, request, [](const phidias::GenerateEvent& event) {
    std::cout << event.text << std::flush;
    return true;
  });
  std::cout << "\n";
  return answer.ok() ? 0 : 1;
}
