// Texts as vectors, by the deployment's embedding model.
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.env.AGENTD_URL}/v1`, apiKey: process.env.AGENTD_KEY });

const { data, model } = await client.embeddings.create({ model: 'any', input: ['red apples', 'green pears'] });
console.log(`${model}: ${data.length} vectors of ${data[0].embedding.length} numbers`);
