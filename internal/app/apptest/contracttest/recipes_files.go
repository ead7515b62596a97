package contracttest

import "agentd/internal/app/apptest"

// aboutFiles are recipes of files, vector stores and responses as other APIs have them.
var aboutFiles = map[string]recipe{
	"createOpenAIFile":      {ids: form("made by a test.txt", "made by a test")},
	"deleteOpenAIFile":      {ids: addedFile},
	"createVectorStore":     {body: apptest.Object{"name": "made by a test", "metadata": apptest.Object{"team": "support"}}},
	"updateVectorStore":     {body: apptest.Object{"description": "changed by a test"}},
	"deleteVectorStore":     {ids: addedVectorStore},
	"searchVectorStore":     {body: apptest.Object{"query": "made", "max_num_results": 5}},
	"createVectorStoreFile": {with: newlyUploaded},
	"deleteVectorStoreFile": {ids: addedStoreFile},
	"deleteResponse":        {ids: addedResponse},
}
