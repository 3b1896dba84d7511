"""What a deployer takes away: SavedModel, server, client, ONNX and LiteRT."""
